#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/net/http_message.h>

namespace stoker::net::internal {

struct HttpLimits {
  size_t header_bytes_max = 64 << 10;
  size_t header_count_max = 256;
  size_t body_bytes_max = 64 << 20;
  size_t chunk_count_max = 65536;
};

/// Why a request is refused. The connection is closed after each of them.
struct HttpFault {
  int status = 0;  // 0: none
  std::string message;
  explicit operator bool() const { return status != 0; }
};

/// Finds the end of a header while its bytes arrive, each byte looked at once, and refuses bare line
/// feeds on the way. The outcome does not depend on how the bytes were cut.
class HeadScanner {
 public:
  enum class Outcome { kMore, kComplete, kFault };
  /// `data` is everything received since the request's first byte; it only grows between calls.
  Outcome Scan(std::string_view data, const HttpLimits& limits, HttpFault* fault);
  /// Empty lines before the request line, in bytes.
  size_t skipped() const { return request_start_; }
  /// From the first byte of `data` to the end of the empty line.
  size_t head_size() const { return position_; }
  void Reset() { *this = HeadScanner(); }

 private:
  size_t position_ = 0;
  size_t line_start_ = 0;
  size_t request_start_ = 0;
};

/// A parsed header: views into the memory that was parsed, and what they say about the body.
struct HttpHead {
  HttpMethod method = HttpMethod::kOther;
  std::string_view target;
  std::string_view path;
  std::string_view query;
  int minor_version = 1;
  std::vector<HttpHeader> headers;
  uint64_t length = 0;
  bool has_length = false;
  bool chunked = false;
  bool keep_alive = true;
  bool expect_continue = false;

  /// Makes all views point into a copy of their memory.
  void Rebase(const char* from, const char* to);
};

/// Parses a header that HeadScanner found complete (request line to empty line, both included).
HttpFault ParseHead(std::string_view block, const HttpLimits& limits, HttpHead* head);

/// Decodes a chunked body. Chunk extensions and trailers are checked, bounded and dropped.
class ChunkDecoder {
 public:
  /// Takes bytes from the front of `input` up to the end of the next run of payload, which it
  /// returns (a view into `input`; empty when more input is needed, at the end and on a fault).
  std::string_view Next(std::string_view* input, const HttpLimits& limits);
  bool done() const { return state_ == State::kDone; }
  const HttpFault& fault() const { return fault_; }

 private:
  enum class State : unsigned char {
    kSizeStart,
    kSize,
    kExtension,
    kSizeLineFeed,
    kData,
    kDataReturn,
    kDataLineFeed,
    kTrailerStart,
    kTrailerName,
    kTrailerValue,
    kTrailerLineFeed,
    kEndLineFeed,
    kDone,
    kFault
  };
  State Step(unsigned char byte, const HttpLimits& limits);
  State StepSize(unsigned char byte);
  State StepTrailer(unsigned char byte);
  State BeginChunk(const HttpLimits& limits);
  State Fail(int status, std::string message);

  State state_ = State::kSizeStart;
  unsigned digits_ = 0;
  uint64_t chunk_ = 0;  // size of this chunk, then what is left of it
  uint64_t total_ = 0;  // payload of all chunks begun so far
  size_t chunks_ = 0;
  size_t overhead_ = 0;  // bytes of extensions and trailers
  HttpFault fault_;
};

/// Equal but for the case of ASCII letters.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace stoker::net::internal
