#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <stoker/base/status.h>

#include "h2_output.h"

namespace stoker::net::internal {

struct H2Limits {
  size_t header_bytes_max = 64 << 10;  // of one list: names, values and 32 bytes each
  uint32_t streams_max = 1024;
  uint32_t stream_window_bytes = 1 << 20;
  uint32_t connection_window_bytes = 16 << 20;
  uint32_t resets_per_second_max = 200;
  uint32_t control_frames_per_second_max = 1000;
};

/// Error codes of RFC 9113 that we send.
enum class H2Error : uint32_t {
  kNone = 0,
  kInternal = 2,
  kRefusedStream = 7,
  kCancel = 8,
  kEnhanceYourCalm = 11,
};

/// The session's part of a stream; owners derive from it.
struct H2Stream {
  int32_t id = 0;
  bool paused = false;             // its body waits for H2Session::Resume
  bool headers_too_large = false;  // the list is cut: answer with an error
  bool body_dropped = false;       // what OnPull promised is gone: reset instead
  bool response_ended = false;     // the end of the stream was sent
  bool request_ended = false;      // the end of the stream was received
  uint32_t unconsumed_bytes = 0;   // received, not yet given back to the window
};

/// One header field of an answer. `fixed` ones have static storage and enter the peer's table.
struct H2Field {
  std::string_view name;
  std::string_view value;
  bool fixed = false;
};

enum class H2Ping : uint8_t { kKeepalive, kDrain };

/// What a session reports to its owner, from within Receive and Produce. The owner may call
/// everything of the session but these two meanwhile.
class H2Events {
 public:
  virtual ~H2Events() = default;
  /// A new request; null refuses it. The stream stays the owner's and must live until OnClose.
  virtual H2Stream* OnOpen(int32_t id) = 0;
  /// A field of the request; views are valid during the call.
  virtual void OnHeader(H2Stream& stream, std::string_view name, std::string_view value) = 0;
  virtual void OnHeaders(H2Stream& stream) = 0;
  virtual void OnData(H2Stream& stream, std::span<const std::byte> data) = 0;
  /// The peer sends no more on it.
  virtual void OnEnd(H2Stream& stream) = 0;
  /// The stream is gone, completed (kNone) or not.
  virtual void OnClose(H2Stream& stream, uint32_t error) = 0;
  virtual void OnPong(H2Ping kind) = 0;

  struct Pull {
    size_t size = 0;
    bool end = false;  // trailers have been submitted
  };
  /// How much of the body can be sent now, at most `size_max`. Nothing and no end pauses the stream.
  virtual Pull OnPull(H2Stream& stream, size_t size_max) = 0;
  /// Moves `size` bytes, as promised by the last OnPull, into `out`.
  virtual void OnEmit(H2Stream& stream, size_t size, H2Output* out) = 0;
};

/// A server's side of one HTTP/2 connection without its socket: received bytes go in, events come
/// out; submitted answers are turned into bytes. Bounds what a peer can make it do (header lists,
/// streams, resets, control frames). Not thread-safe.
class H2Session {
 public:
  static base::Result<std::unique_ptr<H2Session>> Make(const H2Limits& limits, H2Events* events);
  ~H2Session();
  H2Session(const H2Session&) = delete;
  H2Session& operator=(const H2Session&) = delete;

  /// Handles received bytes. An error means that nothing more can be done with the connection
  /// (what is to be sent still may be).
  base::Status Receive(std::span<const std::byte> data, int64_t now_ns);
  /// Appends frames to `out` until it holds about `bytes_max` or none is left.
  base::Status Produce(H2Output* out, size_t bytes_max);

  /// Starts the answer; without a body it is also its end.
  void SubmitResponse(H2Stream& stream, std::span<const H2Field> fields, bool has_body);
  /// Ends the body. Only from OnPull.
  void SubmitTrailers(H2Stream& stream, std::span<const H2Field> fields);
  /// OnPull will be called again.
  void Resume(H2Stream& stream);
  void Reset(H2Stream& stream, H2Error error);
  void SendPing(H2Ping kind);
  /// Asks the peer to open no more streams, without refusing those under way.
  void AnnounceShutdown();
  /// Refuses streams that were not opened yet.
  void StopAccepting();
  /// Gives the connection up: GOAWAY, then nothing.
  void Terminate(H2Error error);

  /// The stream, or null when it is closed.
  H2Stream* Find(int32_t id) const;
  /// The client's preface and settings have arrived.
  bool handshake_done() const;
  /// Nothing will be received or sent any more.
  bool finished() const;
  /// Why the peer was cut off; null when it was not.
  const char* offence() const;

 private:
  class Impl;
  explicit H2Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker::net::internal
