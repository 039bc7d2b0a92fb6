#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include <stoker/base/bytes.h>
#include <stoker/net/http_message.h>

namespace stoker::net::internal {

/// What waits to be written to one socket: small pieces gathered in one buffer, large ones kept
/// alive and written from where they lie. I/O thread only.
class HttpOutput {
 public:
  /// Bodies up to this many bytes are copied into the buffer; one write of one run is cheaper.
  static constexpr size_t kGatherBytesMax = 16 << 10;

  enum class Outcome { kDone, kBlocked, kFailed };

  /// The buffer at the end, to append to.
  std::string& tail() { return tail_; }
  void Append(const base::Bytes& bytes);
  /// Writes what the socket takes; `written` gets the number of bytes.
  Outcome Flush(int fd, size_t* written);
  size_t size() const { return pieces_bytes_ + tail_.size() - front_offset_; }
  bool empty() const { return size() == 0; }

 private:
  Outcome FlushTail(int fd, size_t* written);
  void Drop(size_t bytes);

  std::deque<base::Bytes> pieces_;  // before the tail
  size_t pieces_bytes_ = 0;
  std::string tail_;
  size_t front_offset_ = 0;  // written bytes of the first piece, or of the tail when there is none
};

/// The Date header line, rendered once a second. I/O thread only.
class DateHeader {
 public:
  /// "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" at the monotonic time `now_ns`.
  std::string_view Line(int64_t now_ns);

 private:
  int64_t valid_until_ns_ = INT64_MIN;
  std::string line_;
};

/// What the answering side of a connection knows beyond the response itself.
struct ResponseFrame {
  bool head_only = false;  // HEAD: the length but no body
  bool http10 = false;
  bool close = false;   // the connection ends after it
  bool stream = false;  // the body's length is not known
};

/// Whether answers of this status end after their headers.
bool HasNoBody(int status);

/// Appends status line and headers, and the body unless it is a stream.
void AppendResponse(const HttpResponse& response, const ResponseFrame& frame, std::string_view date_line,
                    HttpOutput* output);
/// Appends one part of a streamed body, and its end.
void AppendStreamPart(const base::Bytes& part, const ResponseFrame& frame, HttpOutput* output);
void AppendStreamEnd(const ResponseFrame& frame, HttpOutput* output);

/// An answer with {"error": message} as its body.
HttpResponse ErrorResponse(int status, std::string_view message);

}  // namespace stoker::net::internal
