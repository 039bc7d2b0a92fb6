#include "h2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <stoker/base/check.h>
#include <stoker/base/clock.h>
#include <stoker/base/str_cat.h>

namespace stoker::net::internal {
namespace {

static_assert(static_cast<uint32_t>(H2Error::kInternal) == NGHTTP2_INTERNAL_ERROR);
static_assert(static_cast<uint32_t>(H2Error::kRefusedStream) == NGHTTP2_REFUSED_STREAM);
static_assert(static_cast<uint32_t>(H2Error::kCancel) == NGHTTP2_CANCEL);
static_assert(static_cast<uint32_t>(H2Error::kEnhanceYourCalm) == NGHTTP2_ENHANCE_YOUR_CALM);

constexpr size_t kFieldOverheadBytes = 32;      // as RFC 9113 counts a header list
constexpr size_t kHeaderStrikes = 4;            // a list beyond this many times the bound ends the connection
constexpr uint32_t kFrameBytesMax = 256 << 10;  // that we take
constexpr size_t kAcksQueuedMax = 1000;
constexpr uint64_t kNoLimit = 1ull << 40;
constexpr unsigned kFirstUnknownType = NGHTTP2_CONTINUATION + 1;
constexpr uint8_t kPings[2][8] = {{'k', 'e', 'e', 'p', 's', 't', 'k', 'r'},
                                  {'d', 'r', 'n', '1', 's', 't', 'k', 'r'}};

/// Lets `rate` events pass per second, and as many at once after a quiet second.
class TokenBucket {
 public:
  explicit TokenBucket(uint32_t rate) : rate_(rate), tokens_(rate) {}
  bool Take(int64_t now_ns) {
    const auto passed = static_cast<double>(now_ns - last_ns_);
    last_ns_ = now_ns;
    tokens_ = std::min<double>(rate_, tokens_ + passed * rate_ / static_cast<double>(base::kNsPerSecond));
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  const double rate_;
  double tokens_;
  int64_t last_ns_ = 0;
};

std::span<const std::byte> AsBytes(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}
std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Fields in nghttp2's form; few of them need no allocation.
class FieldList {
 public:
  explicit FieldList(std::span<const H2Field> fields) : size_(fields.size()) {
    if (size_ > few_.size()) many_.resize(size_);
    for (size_t i = 0; i < size_; ++i) {
      const H2Field& field = fields[i];
      const uint8_t flags = field.fixed ? NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE
                                        : NGHTTP2_NV_FLAG_NO_INDEX;
      data()[i] = {reinterpret_cast<uint8_t*>(const_cast<char*>(field.name.data())),
                   reinterpret_cast<uint8_t*>(const_cast<char*>(field.value.data())), field.name.size(),
                   field.value.size(), flags};
    }
  }
  nghttp2_nv* data() { return many_.empty() ? few_.data() : many_.data(); }
  size_t size() const { return size_; }

 private:
  const size_t size_;
  std::array<nghttp2_nv, 8> few_;
  std::vector<nghttp2_nv> many_;
};

}  // namespace

class H2Session::Impl {
 public:
  Impl(const H2Limits& limits, H2Events* events)
      : limits_(limits),
        events_(events),
        resets_(limits.resets_per_second_max),
        control_frames_(limits.control_frames_per_second_max) {}
  ~Impl() { nghttp2_session_del(session_); }

  base::Status Start();
  base::Status Receive(std::span<const std::byte> data, int64_t now_ns);
  base::Status Produce(H2Output* out, size_t bytes_max);
  void Terminate(H2Error error, const char* offence);

  nghttp2_session* session_ = nullptr;
  bool handshake_done_ = false;
  const char* offence_ = nullptr;

  // nghttp2 callbacks.
  static Impl& Of(void* user_data) { return *static_cast<Impl*>(user_data); }
  static int OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd* head, void* user_data);
  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user_data);
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t flags, void* user_data);
  static int OnData(nghttp2_session*, uint8_t flags, int32_t id, const uint8_t* data, size_t size,
                    void* user_data);
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user_data);
  static int OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* user_data);
  static int OnUnknownFrame(nghttp2_session*, void**, const nghttp2_frame_hd*, void*) {
    return NGHTTP2_ERR_CANCEL;  // not to be looked at any further
  }
  static int OnFrameNotSent(nghttp2_session*, const nghttp2_frame* frame, int error, void* user_data);
  static int OnStreamClose(nghttp2_session*, int32_t id, uint32_t error, void* user_data);
  static ssize_t OnRead(nghttp2_session*, int32_t id, uint8_t* buffer, size_t size, uint32_t* flags,
                        nghttp2_data_source* source, void* user_data);
  static int OnSendData(nghttp2_session*, nghttp2_frame* frame, const uint8_t* head, size_t size,
                        nghttp2_data_source* source, void* user_data);
  static H2Stream* Lookup(nghttp2_session* session, int32_t id) {
    return static_cast<H2Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

 private:
  void HandleEnd(H2Stream* stream);
  void HandleDataFrame(const nghttp2_frame& frame, H2Stream* stream);
  void CountControlFrame() {
    if (!control_frames_.Take(now_ns_)) Terminate(H2Error::kEnhanceYourCalm, "too many control frames");
  }
  void CountReset() {
    if (!resets_.Take(now_ns_)) Terminate(H2Error::kEnhanceYourCalm, "too many stream resets");
  }

  const H2Limits limits_;
  H2Events* const events_;
  TokenBucket resets_;
  TokenBucket control_frames_;
  int64_t now_ns_ = 0;
  H2Stream* header_stream_ = nullptr;  // whose request header is being read; blocks do not interleave
  size_t header_bytes_ = 0;
  size_t unconsumed_bytes_ = 0;  // of the connection's window
  H2Output* out_ = nullptr;      // during Produce
  size_t out_bytes_max_ = 0;
};

base::Status H2Session::Impl::Start() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0) {
    nghttp2_session_callbacks_del(callbacks);
    return base::ResourceExhausted("no memory for an HTTP/2 session");
  }
  nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, OnBeginFrame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, OnBeginHeaders);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, OnFrameSent);
  nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, OnUnknownFrame);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, OnFrameNotSent);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, OnSendData);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_outbound_ack(option, kAcksQueuedMax);
  nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, 1);
  // Ours says why, and runs on the caller's clock.
  nghttp2_option_set_stream_reset_rate_limit(option, kNoLimit, kNoLimit);
  // Only frames of registered types are reported, and unknown ones are to be counted, too.
  for (unsigned type = kFirstUnknownType; type <= 0xff; ++type) {
    nghttp2_option_set_user_recv_extension_type(option, static_cast<uint8_t>(type));
  }
  const int made = nghttp2_session_server_new2(&session_, callbacks, this, option);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(option);
  if (made != 0) return base::ResourceExhausted(base::StrCat("no HTTP/2 session: ", nghttp2_strerror(made)));

  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.streams_max},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits_.stream_window_bytes},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kFrameBytesMax},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits_.header_bytes_max)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  int error = nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  if (error == 0) {
    error = nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                                  static_cast<int32_t>(limits_.connection_window_bytes));
  }
  if (error == 0) return base::OkStatus();
  return base::InvalidArgument(base::StrCat("HTTP/2 settings refused: ", nghttp2_strerror(error),
                                            "; windows and header sizes must be below 2 GiB"));
}

base::Status H2Session::Impl::Receive(std::span<const std::byte> data, int64_t now_ns) {
  now_ns_ = now_ns;
  const ssize_t taken =
      nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(data.data()), data.size());
  if (taken < 0) {
    if (taken == NGHTTP2_ERR_FLOODED) offence_ = "too many frames to acknowledge";
    return base::InvalidArgument(base::StrCat("HTTP/2: ", nghttp2_strerror(static_cast<int>(taken))));
  }
  if (unconsumed_bytes_ > 0) {
    nghttp2_session_consume_connection(session_, std::exchange(unconsumed_bytes_, 0));
  }
  return base::OkStatus();
}

base::Status H2Session::Impl::Produce(H2Output* out, size_t bytes_max) {
  out_ = out;
  out_bytes_max_ = bytes_max;
  ssize_t size = 0;
  while (out->size() < bytes_max) {
    const uint8_t* data = nullptr;
    size = nghttp2_session_mem_send(session_, &data);
    if (size <= 0) break;
    out->Copy(AsBytes(data, static_cast<size_t>(size)));
  }
  out_ = nullptr;
  if (size >= 0) return base::OkStatus();
  return base::Internal(base::StrCat("HTTP/2: ", nghttp2_strerror(static_cast<int>(size))));
}

void H2Session::Impl::Terminate(H2Error error, const char* offence) {
  if (offence_ == nullptr) offence_ = offence;
  nghttp2_session_terminate_session(session_, static_cast<uint32_t>(error));
}

int H2Session::Impl::OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd* head, void* user_data) {
  switch (head->type) {
    case NGHTTP2_PING:
    case NGHTTP2_SETTINGS:
      if ((head->flags & NGHTTP2_FLAG_ACK) == 0) Of(user_data).CountControlFrame();
      break;
    case NGHTTP2_PRIORITY:
    case NGHTTP2_GOAWAY:
      Of(user_data).CountControlFrame();
      break;
    case NGHTTP2_RST_STREAM:
      Of(user_data).CountReset();
      break;
    case NGHTTP2_DATA:
    case NGHTTP2_HEADERS:
    case NGHTTP2_WINDOW_UPDATE:
    case NGHTTP2_CONTINUATION:
      break;
    default:
      Of(user_data).CountControlFrame();
  }
  return 0;
}

int H2Session::Impl::OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
  Impl& self = Of(user_data);
  self.header_stream_ = nullptr;
  self.header_bytes_ = 0;
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;  // trailers of a client mean nothing in gRPC
  const int32_t id = frame->hd.stream_id;
  H2Stream* const stream = self.events_->OnOpen(id);
  if (stream == nullptr) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
    return 0;
  }
  stream->id = id;
  nghttp2_session_set_stream_user_data(session, id, stream);
  self.header_stream_ = stream;
  return 0;
}

int H2Session::Impl::OnHeader(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size,
                              const uint8_t* value, size_t value_size, uint8_t, void* user_data) {
  Impl& self = Of(user_data);
  self.header_bytes_ += name_size + value_size + kFieldOverheadBytes;
  if (self.header_bytes_ > self.limits_.header_bytes_max) {
    if (self.header_stream_ != nullptr) self.header_stream_->headers_too_large = true;
    if (self.header_bytes_ / kHeaderStrikes > self.limits_.header_bytes_max) {
      self.Terminate(H2Error::kEnhanceYourCalm, "header list far too large");
    }
    return 0;
  }
  if (self.header_stream_ == nullptr) return 0;
  self.events_->OnHeader(*self.header_stream_, AsText(name, name_size), AsText(value, value_size));
  return 0;
}

int H2Session::Impl::OnData(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data, size_t size,
                            void* user_data) {
  Impl& self = Of(user_data);
  self.unconsumed_bytes_ += size;
  H2Stream* const stream = Lookup(session, id);
  if (stream == nullptr) return 0;
  stream->unconsumed_bytes += static_cast<uint32_t>(size);
  self.events_->OnData(*stream, AsBytes(data, size));
  return 0;
}

void H2Session::Impl::HandleEnd(H2Stream* stream) {
  if (stream == nullptr) return;
  stream->request_ended = true;
  events_->OnEnd(*stream);
}

void H2Session::Impl::HandleDataFrame(const nghttp2_frame& frame, H2Stream* stream) {
  if ((frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
    HandleEnd(stream);
    return;
  }
  if (frame.hd.length <= frame.data.padlen) CountControlFrame();  // carries nothing
  if (stream != nullptr && stream->unconsumed_bytes > 0) {
    nghttp2_session_consume_stream(session_, stream->id, std::exchange(stream->unconsumed_bytes, 0));
  }
}

int H2Session::Impl::OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
  Impl& self = Of(user_data);
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS: {
      H2Stream* const stream = Lookup(session, frame->hd.stream_id);
      if (std::exchange(self.header_stream_, nullptr) != nullptr) self.events_->OnHeaders(*stream);
      if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) self.HandleEnd(stream);
      break;
    }
    case NGHTTP2_DATA:
      self.HandleDataFrame(*frame, Lookup(session, frame->hd.stream_id));
      break;
    case NGHTTP2_SETTINGS:
      self.handshake_done_ = true;
      break;
    case NGHTTP2_PING:
      if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) break;
      for (const H2Ping kind : {H2Ping::kKeepalive, H2Ping::kDrain}) {
        if (std::memcmp(frame->ping.opaque_data, kPings[static_cast<size_t>(kind)], 8) == 0)
          self.events_->OnPong(kind);
      }
      break;
    default:
      break;
  }
  return 0;
}

int H2Session::Impl::OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
  Impl& self = Of(user_data);
  if (frame->hd.type == NGHTTP2_RST_STREAM) {
    // Ours end answered or cancelled calls. All others the peer provoked: as good as its own resets.
    const uint32_t error = frame->rst_stream.error_code;
    if (error != NGHTTP2_NO_ERROR && error != NGHTTP2_CANCEL) self.CountReset();
    return 0;
  }
  if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  H2Stream* const stream = Lookup(session, frame->hd.stream_id);
  if (stream == nullptr) return 0;
  stream->response_ended = true;
  // The answer is complete, so the rest of the request is not wanted (RFC 9113 8.1).
  if (!stream->request_ended) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
  }
  return 0;
}

// An answer's header or trailers that cannot be encoded (too large): the peer must not wait for them.
int H2Session::Impl::OnFrameNotSent(nghttp2_session* session, const nghttp2_frame* frame, int, void*) {
  if (frame->hd.type != NGHTTP2_HEADERS || Lookup(session, frame->hd.stream_id) == nullptr) return 0;
  nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_INTERNAL_ERROR);
  return 0;
}

int H2Session::Impl::OnStreamClose(nghttp2_session* session, int32_t id, uint32_t error, void* user_data) {
  Impl& self = Of(user_data);
  H2Stream* const stream = Lookup(session, id);
  if (stream == nullptr) return 0;
  if (self.header_stream_ == stream) self.header_stream_ = nullptr;
  nghttp2_session_set_stream_user_data(session, id, nullptr);
  self.events_->OnClose(*stream, error);
  return 0;
}

ssize_t H2Session::Impl::OnRead(nghttp2_session* session, int32_t id, uint8_t*, size_t size, uint32_t* flags,
                                nghttp2_data_source*, void* user_data) {
  H2Stream* const stream = Lookup(session, id);
  if (stream == nullptr || stream->body_dropped) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  const H2Events::Pull pull = Of(user_data).events_->OnPull(*stream, size);
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (pull.end) *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  if (pull.size == 0 && !pull.end) {
    stream->paused = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return static_cast<ssize_t>(pull.size);
}

int H2Session::Impl::OnSendData(nghttp2_session* session, nghttp2_frame* frame, const uint8_t* head,
                                size_t size, nghttp2_data_source*, void* user_data) {
  Impl& self = Of(user_data);
  if (self.out_->size() >= self.out_bytes_max_) return NGHTTP2_ERR_WOULDBLOCK;
  H2Stream* const stream = Lookup(session, frame->hd.stream_id);
  if (stream == nullptr || stream->body_dropped) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  CHECK(frame->data.padlen == 0);  // there is no padding callback
  static constexpr size_t kFrameHeadBytes = 9;
  self.out_->Copy(AsBytes(head, kFrameHeadBytes));
  self.events_->OnEmit(*stream, size, self.out_);
  return 0;
}

base::Result<std::unique_ptr<H2Session>> H2Session::Make(const H2Limits& limits, H2Events* events) {
  auto impl = std::make_unique<Impl>(limits, events);
  STOKER_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<H2Session>(new H2Session(std::move(impl)));
}

H2Session::H2Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
H2Session::~H2Session() = default;

base::Status H2Session::Receive(std::span<const std::byte> data, int64_t now_ns) {
  return impl_->Receive(data, now_ns);
}
base::Status H2Session::Produce(H2Output* out, size_t bytes_max) { return impl_->Produce(out, bytes_max); }

void H2Session::SubmitResponse(H2Stream& stream, std::span<const H2Field> fields, bool has_body) {
  FieldList list(fields);
  nghttp2_data_provider provider{};
  provider.read_callback = Impl::OnRead;
  // Fails only for a stream that has gone, whose OnClose tells.
  nghttp2_submit_response(impl_->session_, stream.id, list.data(), list.size(),
                          has_body ? &provider : nullptr);
}

void H2Session::SubmitTrailers(H2Stream& stream, std::span<const H2Field> fields) {
  FieldList list(fields);
  nghttp2_submit_trailer(impl_->session_, stream.id, list.data(), list.size());
}

void H2Session::Resume(H2Stream& stream) {
  if (!std::exchange(stream.paused, false)) return;
  nghttp2_session_resume_data(impl_->session_, stream.id);
}

void H2Session::Reset(H2Stream& stream, H2Error error) {
  nghttp2_submit_rst_stream(impl_->session_, NGHTTP2_FLAG_NONE, stream.id, static_cast<uint32_t>(error));
}

void H2Session::SendPing(H2Ping kind) {
  nghttp2_submit_ping(impl_->session_, NGHTTP2_FLAG_NONE, kPings[static_cast<size_t>(kind)]);
}

void H2Session::AnnounceShutdown() { nghttp2_submit_shutdown_notice(impl_->session_); }

void H2Session::StopAccepting() {
  nghttp2_submit_goaway(impl_->session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(impl_->session_), NGHTTP2_NO_ERROR, nullptr,
                        0);
}

void H2Session::Terminate(H2Error error) { impl_->Terminate(error, nullptr); }

H2Stream* H2Session::Find(int32_t id) const { return Impl::Lookup(impl_->session_, id); }
bool H2Session::handshake_done() const { return impl_->handshake_done_; }
const char* H2Session::offence() const { return impl_->offence_; }

bool H2Session::finished() const {
  return nghttp2_session_want_read(impl_->session_) == 0 && nghttp2_session_want_write(impl_->session_) == 0;
}

}  // namespace stoker::net::internal
