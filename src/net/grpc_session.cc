#include "grpc_session.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <stoker/base/str_cat.h>

#include "grpc_wire.h"

namespace stoker::net::internal {
namespace {

constexpr size_t kDeadlinesKeptMin = 64;
constexpr size_t kUncountedBytesMax = 4 << 10;  // as cheap as the call itself; their number is bounded

// False for a coding that we do not know.
bool ParseCoding(std::string_view name, ContentCoding* coding) {
  if (name == "gzip") {
    *coding = ContentCoding::kGzip;
  } else if (name == "deflate") {
    *coding = ContentCoding::kDeflate;
  } else {
    *coding = ContentCoding::kIdentity;
    return name == "identity";
  }
  return true;
}

}  // namespace

base::Result<std::unique_ptr<GrpcSession>> GrpcSession::Make(GrpcShared* shared, GrpcCounters* counters,
                                                             std::shared_ptr<const GrpcPeer> peer,
                                                             GrpcSessionHost* host) {
  std::unique_ptr<GrpcSession> session(new GrpcSession(shared, counters, std::move(peer), host));
  const GrpcServerOptions& options = shared->options;
  const H2Limits limits{.header_bytes_max = options.header_bytes_max,
                        .streams_max = options.streams_max,
                        .stream_window_bytes = options.stream_window_bytes,
                        .connection_window_bytes = options.connection_window_bytes,
                        .resets_per_second_max = options.resets_per_second_max,
                        .control_frames_per_second_max = options.control_frames_per_second_max};
  STOKER_ASSIGN_OR_RETURN(session->h2_, H2Session::Make(limits, session.get()));
  return session;
}

GrpcSession::GrpcSession(GrpcShared* shared, GrpcCounters* counters, std::shared_ptr<const GrpcPeer> peer,
                         GrpcSessionHost* host)
    : shared_(shared), counters_(counters), peer_(std::move(peer)), host_(host) {}

GrpcSession::~GrpcSession() {
  if (h2_ != nullptr && h2_->offence() != nullptr) GrpcCounters::Add<uint64_t>(counters_->offences, 1);
  while (first_ != nullptr) OnClose(*first_, static_cast<uint32_t>(H2Error::kCancel));
}

base::Status GrpcSession::Receive(std::span<const std::byte> data) {
  GrpcCounters::Add<uint64_t>(counters_->bytes_in, data.size());
  return h2_->Receive(data, host_->NowNs());
}

base::Status GrpcSession::Produce(H2Output* out, size_t bytes_max) {
  const size_t before = out->size();
  base::Status status = h2_->Produce(out, bytes_max);
  GrpcCounters::Add<uint64_t>(counters_->bytes_out, out->size() - before);
  return status;
}

bool GrpcSession::finished() const { return h2_->finished() || (drain_ == Drain::kDone && open_calls_ == 0); }

H2Stream* GrpcSession::OnOpen(int32_t) {
  // A peer that leaves its answers lying gets no further ones.
  if (open_calls_ >= shared_->options.streams_max ||
      queue_bytes_ > shared_->options.write_backlog_bytes_max) {
    return nullptr;
  }
  auto stream =
      std::make_shared<GrpcStream>(this, peer_, &shared_->budget, shared_->options.message_bytes_max);
  GrpcStream* const raw = stream.get();
  raw->received_ns = host_->NowNs();
  raw->next = first_;
  if (first_ != nullptr) first_->previous = raw;
  first_ = raw;
  raw->self = std::move(stream);
  ++open_calls_;
  GrpcCounters::Add<size_t>(counters_->open_calls, 1);
  GrpcCounters::Add<uint64_t>(counters_->calls, 1);
  opening_ = {};
  metadata_.Begin();
  return raw;
}

void GrpcSession::OnHeader(H2Stream& stream, std::string_view name, std::string_view value) {
  GrpcStream& call = AsCall(stream);
  if (name.empty()) return;
  if (name[0] == ':') {
    OnPseudoHeader(call, name, value);
  } else if (!OnTransportHeader(call, name, value) && opening_.error.ok()) {
    opening_.error = metadata_.Add(name, value);
  }
}

void GrpcSession::OnPseudoHeader(GrpcStream& stream, std::string_view name, std::string_view value) {
  if (name == ":path") {
    if (last_path_ == nullptr || *last_path_ != value)
      last_path_ = std::make_shared<const std::string>(value);
    stream.path = last_path_;
  } else if (name == ":method") {
    opening_.post = value == "POST";
  }
}

// True for a field that is the transport's and not metadata of the call.
bool GrpcSession::OnTransportHeader(GrpcStream& stream, std::string_view name, std::string_view value) {
  if (name == "te" || name == "content-length" || name == "host") return true;
  if (name == "content-type") {
    opening_.grpc = IsGrpcContentType(value);
    if (!opening_.grpc) opening_.content_type = value;
    return true;
  }
  if (!name.starts_with("grpc-")) return false;
  if (name == "grpc-timeout") {
    const std::optional<int64_t> timeout_ns = ParseGrpcTimeout(value);
    if (timeout_ns) {
      opening_.timeout_ns = *timeout_ns;
    } else if (opening_.error.ok()) {
      opening_.error = base::Internal(base::StrCat("malformed grpc-timeout ", base::Quoted(value),
                                                   "; up to 8 digits and one of H M S m u n expected"));
    }
    return true;
  }
  if (name == "grpc-encoding") {
    if (!ParseCoding(value, &stream.request_coding)) {
      opening_.unknown_coding = true;
      if (opening_.error.ok()) {
        opening_.error = base::Unimplemented(base::StrCat(
            "grpc-encoding ", base::Quoted(value), " is not supported; supported: ", kAcceptedCodings));
      }
    }
    return true;
  }
  if (name == "grpc-accept-encoding") {
    opening_.accepts_gzip = AcceptsCoding(value, "gzip");
    return true;
  }
  return false;
}

base::Status GrpcSession::CheckOpening(const GrpcStream& stream) const {
  if (stream.headers_too_large) {
    return base::ResourceExhausted(
        base::StrCat("metadata is larger than ", shared_->options.header_bytes_max, " bytes"));
  }
  if (!opening_.error.ok()) return opening_.error;
  if (opening_.timeout_ns == 0)
    return base::DeadlineExceeded("the deadline had passed when the call arrived");
  return base::OkStatus();
}

void GrpcSession::OnHeaders(H2Stream& h2_stream) {
  GrpcStream& stream = AsCall(h2_stream);
  if (stream.path == nullptr) stream.path = std::make_shared<const std::string>();
  stream.metadata = metadata_.Finish();
  base::Status status = CheckOpening(stream);
  if (!stream.headers_too_large && !opening_.post) {
    RefuseHttp(stream, "405", base::Internal("gRPC calls are POST requests"));
    return;
  }
  if (!stream.headers_too_large && !opening_.grpc) {
    RefuseHttp(stream, "415",
               base::InvalidArgument(base::StrCat("content-type ", base::Quoted(opening_.content_type),
                                                  " received; application/grpc expected")));
    return;
  }
  if (!status.ok()) {
    Fail(stream, std::move(status));
    opening_.unknown_coding = false;
    return;
  }
  if (opening_.timeout_ns > 0) {
    stream.deadline_ns = stream.received_ns + opening_.timeout_ns;
    WatchDeadline(stream);
  }
  if (opening_.accepts_gzip && shared_->options.gzip_responses) stream.response_coding = ContentCoding::kGzip;
  std::unique_ptr<GrpcMethodHandler> handler = shared_->dispatcher(stream.call());
  if (handler == nullptr) {
    Fail(stream, base::Unimplemented(base::StrCat("unknown method ", base::Quoted(*stream.path))));
    return;
  }
  if (!stream.ended) stream.handler = std::move(handler);
}

void GrpcSession::OnData(H2Stream& h2_stream, std::span<const std::byte> data) {
  GrpcStream& stream = AsCall(h2_stream);
  stream.read_progress_ns = host_->NowNs();
  while (!stream.ended) {
    switch (stream.deframer.Next(&data)) {
      case GrpcDeframer::Step::kMore:
        if (stream.deframer.in_message()) WatchStall(shared_->options.read_timeout_ns);
        return;
      case GrpcDeframer::Step::kFailed:
        Fail(stream, stream.deframer.status());
        return;
      case GrpcDeframer::Step::kMessage:
        Deliver(stream, stream.deframer.TakeMessage());
        break;
    }
  }
}

void GrpcSession::Deliver(GrpcStream& stream, base::Bytes message) {
  if (stream.deframer.compressed()) {
    if (stream.request_coding == ContentCoding::kIdentity) {
      Fail(stream, base::Internal("message flagged as compressed, but the call has no grpc-encoding"));
      return;
    }
    const size_t bytes_max =
        std::min(shared_->options.message_bytes_max, shared_->options.unpacked_bytes_max);
    auto plain = Decompress(stream.request_coding, message.span(), bytes_max);
    if (!plain.ok()) {
      const bool large = plain.status().code() == base::StatusCode::kResourceExhausted;
      Fail(stream, {large ? base::StatusCode::kResourceExhausted : base::StatusCode::kInternal,
                    base::StrCat("message cannot be decompressed: ", plain.status().message())});
      return;
    }
    message = *std::move(plain);
  }
  if (stream.handler == nullptr) return;
  if (message.size() > kUncountedBytesMax) {
    auto charged = base::Charge(shared_->held, std::move(message));
    if (!charged.ok()) {
      Fail(stream, charged.status());
      return;
    }
    message = *std::move(charged);
  }
  const GrpcHandlerScope scope(stream);
  stream.handler->OnMessage(std::move(message));
}

void GrpcSession::OnEnd(H2Stream& h2_stream) {
  GrpcStream& stream = AsCall(h2_stream);
  if (stream.ended || stream.handler == nullptr) return;
  if (stream.deframer.in_message()) {
    Fail(stream, base::Internal("the client ended the call within a message"));
    return;
  }
  const GrpcHandlerScope scope(stream);
  stream.handler->OnHalfClose();
}

void GrpcSession::OnClose(H2Stream& h2_stream, uint32_t) {
  GrpcStream& stream = AsCall(h2_stream);
  const std::shared_ptr<GrpcStream> keep = std::move(stream.self);
  stream.session = nullptr;
  stream.deframer.Clear();
  DropQueue(stream);
  Unlink(stream);
  CancelHandler(stream);
  stream.ended = true;
  ReleaseHandler(stream);
}

void GrpcSession::Unlink(GrpcStream& stream) {
  (stream.previous != nullptr ? stream.previous->next : first_) = stream.next;
  if (stream.next != nullptr) stream.next->previous = stream.previous;
  stream.previous = stream.next = nullptr;
  --open_calls_;
  GrpcCounters::Add<size_t>(counters_->open_calls, -1);
}

// Takes the call away from whoever answers it, unless the answer was complete.
void GrpcSession::CancelHandler(GrpcStream& stream) {
  if (!stream.ClaimEnd()) return;
  stream.MarkCancelled();
  if (stream.handler == nullptr) return;
  const GrpcHandlerScope scope(stream);
  stream.handler->OnCancel();
}

void GrpcSession::ReleaseHandler(GrpcStream& stream) {
  if (stream.handler_depth == 0) stream.handler.reset();
}

void GrpcSession::WatchStall(int64_t timeout_ns) {
  if (next_stall_check_ns_ == kNever) next_stall_check_ns_ = host_->NowNs() + timeout_ns / kStallChecks;
}

void GrpcSession::WatchDeadline(GrpcStream& stream) {
  if (deadlines_.size() >= kDeadlinesKeptMin && deadlines_.size() > 2 * open_calls_) {
    std::erase_if(deadlines_, [this](const auto& entry) { return h2_->Find(entry.second) == nullptr; });
    std::make_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  }
  deadlines_.emplace_back(stream.deadline_ns, stream.id);
  std::push_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  host_->OnOutput();
}

int64_t GrpcSession::next_time_ns() const {
  return deadlines_.empty() ? next_stall_check_ns_ : std::min(deadlines_.front().first, next_stall_check_ns_);
}

void GrpcSession::OnTime() {
  const int64_t now_ns = host_->NowNs();
  EndOverdue(now_ns);
  if (next_stall_check_ns_ <= now_ns) EndStalled(now_ns);
}

void GrpcSession::EndOverdue(int64_t now_ns) {
  while (!deadlines_.empty() && deadlines_.front().first <= now_ns) {
    const int32_t id = deadlines_.front().second;
    std::pop_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
    deadlines_.pop_back();
    H2Stream* const stream = h2_->Find(id);
    if (stream != nullptr) Fail(AsCall(*stream), base::DeadlineExceeded("Deadline Exceeded"));
  }
}

void GrpcSession::EndStalled(int64_t now_ns) {
  const GrpcServerOptions& options = shared_->options;
  next_stall_check_ns_ = kNever;
  for (GrpcStream* stream = first_; stream != nullptr;) {
    GrpcStream& call = *stream;
    stream = stream->next;
    const bool reading = !call.ended && call.deframer.in_message();
    const bool writing = call.queue_bytes > 0;
    if (writing && now_ns - call.write_progress_ns >= options.write_timeout_ns) {
      Abandon(call);
    } else if (reading && now_ns - call.read_progress_ns >= options.read_timeout_ns) {
      Fail(call, base::Cancelled("a message was begun and not continued in time"));
    } else if (reading || writing) {
      next_stall_check_ns_ =
          now_ns + std::min(options.read_timeout_ns, options.write_timeout_ns) / kStallChecks;
    }
  }
}

void GrpcSession::BeginDrain() {
  if (drain_ != Drain::kNo) return;
  drain_ = Drain::kAnnounced;
  h2_->AnnounceShutdown();
  h2_->SendPing(H2Ping::kDrain);
  host_->OnOutput();
}

void GrpcSession::FinishDrain() {
  if (drain_ == Drain::kDone) return;
  drain_ = Drain::kDone;
  h2_->StopAccepting();
  host_->OnOutput();
}

void GrpcSession::SendPing() {
  ping_unanswered_ = true;
  h2_->SendPing(H2Ping::kKeepalive);
  host_->OnOutput();
}

void GrpcSession::OnPong(H2Ping kind) {
  if (kind == H2Ping::kKeepalive) ping_unanswered_ = false;
  if (kind == H2Ping::kDrain && drain_ == Drain::kAnnounced) FinishDrain();
}

}  // namespace stoker::net::internal
