#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct nghttp2_session;

namespace stoker::net::internal {

using TestFields = std::vector<std::pair<std::string, std::string>>;

/// The fields of a call as gRPC clients send them, further ones behind.
TestFields GrpcRequestFields(std::string_view path, TestFields more = {});
/// A message with its prefix.
std::string GrpcFrame(std::string_view message, int flag = 0);
/// An HTTP/2 frame, right or wrong.
std::string RawFrame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload);

/// A client's side of an HTTP/2 connection (nghttp2) for tests: what it would send and what it was
/// answered are strings. Not thread-safe.
class H2TestClient {
 public:
  struct Answer {
    TestFields headers;
    std::string data;
    TestFields trailers;
    bool ended = false;  // by END_STREAM
    bool closed = false;
    uint32_t error = 0;

    /// The value of a field of the trailers (or of the headers, for a trailers-only answer); "" without one.
    std::string Field(std::string_view name) const;
    std::string status() const { return Field("grpc-status"); }
    /// The messages of data (all with flag 0).
    std::vector<std::string> Messages() const;
  };

  /// `window`: of each stream.
  explicit H2TestClient(uint32_t window = 1 << 20, bool auto_window_update = true);
  ~H2TestClient();
  H2TestClient(const H2TestClient&) = delete;
  H2TestClient& operator=(const H2TestClient&) = delete;

  /// Opens a stream; more data may follow unless `end`.
  int32_t Request(const TestFields& fields, std::string_view body, bool end = true);
  void SendData(int32_t id, std::string_view data, bool end);
  void Reset(int32_t id, uint32_t error);
  void Ping();
  void WindowUpdate(int32_t id, int32_t bytes);

  /// What is to be sent now.
  std::string TakeOutput();
  /// Takes what the server sent; false when it broke the protocol.
  bool Receive(std::string_view data);

  const Answer& answer(int32_t id) { return answers_[id]; }
  bool goaway() const { return goaway_; }
  uint32_t goaway_error() const { return goaway_error_; }
  int32_t goaway_last_stream() const { return goaway_last_stream_; }
  int pongs() const { return pongs_; }

 private:
  struct Body {
    std::string data;
    bool end = false;
  };
  struct Callbacks;

  nghttp2_session* session_ = nullptr;
  std::map<int32_t, Body> bodies_;
  std::map<int32_t, Answer> answers_;
  bool goaway_ = false;
  uint32_t goaway_error_ = 0;
  int32_t goaway_last_stream_ = -1;
  int pongs_ = 0;
};

}  // namespace stoker::net::internal
