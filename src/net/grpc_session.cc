#include "grpc_session.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <stoker/base/check.h>
#include <stoker/base/str_cat.h>

#include "grpc_wire.h"

namespace stoker::net::internal {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kStallChecks = 4;  // per timeout
constexpr size_t kSentKept = 64;     // messages already sent that a queue may hold
constexpr size_t kDeadlinesKeptMin = 64;
constexpr std::string_view kAcceptedCodings = "identity,deflate,gzip";

GrpcStream& AsCall(H2Stream& stream) { return static_cast<GrpcStream&>(stream); }

// Remembers that a handler runs, so that it is not destroyed under its own feet.
class HandlerScope {
 public:
  explicit HandlerScope(GrpcStream& stream) : stream_(stream) { ++stream_.handler_depth; }
  ~HandlerScope() {
    if (--stream_.handler_depth == 0 && stream_.ended) stream_.handler.reset();
  }

 private:
  GrpcStream& stream_;
};

}  // namespace

base::Result<std::unique_ptr<GrpcSession>> GrpcSession::Make(GrpcShared* shared,
                                                             std::shared_ptr<const GrpcPeer> peer,
                                                             GrpcOutputListener* listener) {
  std::unique_ptr<GrpcSession> session(new GrpcSession(shared, std::move(peer), listener));
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

GrpcSession::GrpcSession(GrpcShared* shared, std::shared_ptr<const GrpcPeer> peer,
                         GrpcOutputListener* listener)
    : shared_(shared), peer_(std::move(peer)), listener_(listener), next_stall_check_ns_(kNever) {}

GrpcSession::~GrpcSession() {
  while (first_ != nullptr) OnClose(*first_, static_cast<uint32_t>(H2Error::kCancel));
}

base::Status GrpcSession::Receive(std::span<const std::byte> data, int64_t now_ns) {
  now_ns_ = now_ns;
  return h2_->Receive(data, now_ns);
}

base::Status GrpcSession::Produce(H2Output* out, size_t bytes_max, int64_t now_ns) {
  now_ns_ = now_ns;
  return h2_->Produce(out, bytes_max);
}

bool GrpcSession::finished() const { return h2_->finished() || (drain_ == Drain::kDone && open_calls_ == 0); }

// --- the request -----------------------------------------------------------------------------

H2Stream* GrpcSession::OnOpen(int32_t) {
  // A peer that leaves its answers lying gets no further ones.
  if (open_calls_ >= shared_->options.streams_max ||
      queue_bytes_ > shared_->options.write_backlog_bytes_max) {
    return nullptr;
  }
  auto stream =
      std::make_shared<GrpcStream>(this, peer_, &shared_->budget, shared_->options.message_bytes_max);
  GrpcStream* const raw = stream.get();
  raw->received_ns = now_ns_;
  raw->next = first_;
  if (first_ != nullptr) first_->previous = raw;
  first_ = raw;
  raw->self = std::move(stream);
  ++open_calls_;
  shared_->open_calls.fetch_add(1, std::memory_order_relaxed);
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

namespace {
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
    stream.deadline_ns = now_ns_ + opening_.timeout_ns;
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
  stream.read_progress_ns = now_ns_;
  while (!stream.ended) {
    switch (stream.deframer.Next(&data)) {
      case GrpcDeframer::Step::kMore:
        if (stream.deframer.in_message() && next_stall_check_ns_ == kNever) {
          next_stall_check_ns_ = now_ns_ + shared_->options.read_timeout_ns / kStallChecks;
        }
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
    auto plain = Decompress(stream.request_coding, message.span(), shared_->options.message_bytes_max);
    if (!plain.ok()) {
      const bool large = plain.status().code() == base::StatusCode::kResourceExhausted;
      Fail(stream, {large ? base::StatusCode::kResourceExhausted : base::StatusCode::kInternal,
                    base::StrCat("message cannot be decompressed: ", plain.status().message())});
      return;
    }
    message = *std::move(plain);
  }
  if (stream.handler == nullptr) return;
  const HandlerScope scope(stream);
  stream.handler->OnMessage(std::move(message));
}

void GrpcSession::OnEnd(H2Stream& h2_stream) {
  GrpcStream& stream = AsCall(h2_stream);
  if (stream.ended || stream.handler == nullptr) return;
  if (stream.deframer.in_message()) {
    Fail(stream, base::Internal("the client ended the call within a message"));
    return;
  }
  const HandlerScope scope(stream);
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
  shared_->open_calls.fetch_sub(1, std::memory_order_relaxed);
}

// Takes the call away from whoever answers it, unless the answer was complete.
void GrpcSession::CancelHandler(GrpcStream& stream) {
  if (!stream.ClaimEnd()) return;
  stream.MarkCancelled();
  if (stream.handler == nullptr) return;
  const HandlerScope scope(stream);
  stream.handler->OnCancel();
}

void GrpcSession::ReleaseHandler(GrpcStream& stream) {
  if (stream.handler_depth == 0) stream.handler.reset();
}

// --- the answer ------------------------------------------------------------------------------

void GrpcSession::Send(GrpcStream& stream, GrpcOutMessage message) {
  if (stream.ended) {
    stream.TakeBacklog(message.size);
    return;
  }
  if (stream.queue_bytes == 0) stream.write_progress_ns = now_ns_;
  if (next_stall_check_ns_ == kNever)
    next_stall_check_ns_ = now_ns_ + shared_->options.write_timeout_ns / kStallChecks;
  stream.queue_bytes += message.size;
  queue_bytes_ += message.size;
  stream.queue.push_back(std::move(message));
  if (!stream.responded) {
    static constexpr H2Field kPlain[] = {{":status", "200", true},
                                         {"content-type", "application/grpc", true}};
    static constexpr H2Field kGzip[] = {{":status", "200", true},
                                        {"content-type", "application/grpc", true},
                                        {"grpc-encoding", "gzip", true}};
    stream.responded = true;
    if (stream.response_coding == ContentCoding::kGzip) {
      h2_->SubmitResponse(stream, kGzip, true);
    } else {
      h2_->SubmitResponse(stream, kPlain, true);
    }
  } else {
    h2_->Resume(stream);
  }
  listener_->OnOutput();
}

void GrpcSession::End(GrpcStream& stream, base::Status status, GrpcMetadata trailers) {
  if (stream.ended) return;
  stream.ended = true;
  stream.final_status = std::move(status);
  stream.final_trailers = std::move(trailers);
  if (stream.responded) {
    h2_->Resume(stream);
  } else {
    stream.responded = true;
    SubmitEnd(stream, "200");
  }
  ReleaseHandler(stream);
  listener_->OnOutput();
}

// Ends a call on the server's own account.
void GrpcSession::Fail(GrpcStream& stream, base::Status status) {
  if (stream.ended) return;
  if (stream.queue_taken_bytes > 0 || stream.promised_bytes > 0) {
    Abandon(stream);  // a message is cut: trailers behind it would make no sense to the peer
    return;
  }
  DropQueue(stream);
  CancelHandler(stream);
  End(stream, std::move(status), {});
}

// Ends a call without the rest of its answer.
void GrpcSession::Abandon(GrpcStream& stream) {
  stream.body_dropped = true;
  DropQueue(stream);
  CancelHandler(stream);
  stream.ended = true;
  ReleaseHandler(stream);
  h2_->Reset(stream, H2Error::kCancel);
  listener_->OnOutput();
}

void GrpcSession::RefuseHttp(GrpcStream& stream, std::string_view http_status, base::Status status) {
  stream.ClaimEnd();
  stream.ended = true;
  stream.responded = true;
  stream.final_status = std::move(status);
  SubmitEnd(stream, http_status);
  listener_->OnOutput();
}

void GrpcSession::DropQueue(GrpcStream& stream) {
  stream.TakeBacklog(stream.queue_bytes);
  queue_bytes_ -= stream.queue_bytes;
  stream.queue_bytes = 0;
  stream.queue.clear();
  stream.queue_first = 0;
}

namespace {

constexpr size_t kMessageBytesMax = 6000;  // encoded; clients refuse header lists beyond 8 KiB
constexpr std::string_view kStatusTexts[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                             "9", "10", "11", "12", "13", "14", "15", "16"};

// The fields that end a call. Strings they refer to live in `strings`.
void AppendEnd(const base::Status& status, const GrpcMetadata& trailers, std::vector<H2Field>* fields,
               std::vector<std::string>* strings) {
  const size_t code = std::min<size_t>(static_cast<size_t>(status.code()), std::size(kStatusTexts) - 1);
  fields->push_back({"grpc-status", kStatusTexts[code], true});
  strings->reserve(trailers.size() + 1);  // they must not move
  if (!status.message().empty()) {
    strings->push_back(EncodeGrpcMessage(status.message(), kMessageBytesMax));
    fields->push_back({"grpc-message", strings->back()});
  }
  for (const auto& [name, value] : trailers) {
    if (!IsMetadataName(name)) continue;
    if (name.ends_with("-bin")) {
      strings->push_back(EncodeBase64(value));
      fields->push_back({name, strings->back()});
    } else if (IsMetadataValue(value)) {
      fields->push_back({name, value});
    }
  }
}

}  // namespace

// Submits trailers, or the whole answer when nothing was sent yet.
void GrpcSession::SubmitEnd(GrpcStream& stream, std::string_view http_status) {
  static constexpr H2Field kOk[] = {{"grpc-status", "0", true}};
  const bool alone = !http_status.empty();
  if (!alone && stream.final_status == base::OkStatus() && stream.final_trailers.empty()) {
    h2_->SubmitTrailers(stream, kOk);
    return;
  }
  std::vector<H2Field> fields;
  std::vector<std::string> strings;
  if (alone) {
    fields.push_back({":status", http_status, http_status == "200"});
    fields.push_back({"content-type", "application/grpc", true});
    if (opening_.unknown_coding) fields.push_back({"grpc-accept-encoding", kAcceptedCodings, true});
  }
  AppendEnd(stream.final_status, stream.final_trailers, &fields, &strings);
  if (alone) {
    h2_->SubmitResponse(stream, fields, false);
  } else {
    h2_->SubmitTrailers(stream, fields);
  }
}

H2Events::Pull GrpcSession::OnPull(H2Stream& h2_stream, size_t size_max) {
  GrpcStream& stream = AsCall(h2_stream);
  Pull pull{.size = std::min(size_max, stream.queue_bytes)};
  stream.promised_bytes = pull.size;
  pull.end = stream.ended && pull.size == stream.queue_bytes;
  if (pull.end) SubmitEnd(stream, {});
  return pull;
}

void GrpcSession::OnEmit(H2Stream& h2_stream, size_t size, H2Output* out) {
  GrpcStream& stream = AsCall(h2_stream);
  CHECK(size <= stream.queue_bytes);
  stream.write_progress_ns = now_ns_;
  stream.promised_bytes = 0;
  stream.queue_bytes -= size;
  queue_bytes_ -= size;
  stream.TakeBacklog(size);
  while (size > 0) {
    GrpcOutMessage& message = stream.queue[stream.queue_first];
    size_t skip = stream.queue_taken_bytes;
    const size_t taken = std::min(size, message.size - skip);
    size_t left = taken;
    if (skip < kGrpcPrefixBytes) {
      const size_t count = std::min(left, kGrpcPrefixBytes - skip);
      out->Copy(std::span<const std::byte>(message.prefix).subspan(skip, count));
      left -= count;
      skip += count;
    }
    skip -= kGrpcPrefixBytes;
    for (size_t i = 0; left > 0; ++i) {
      const base::Bytes& part = message.parts[i];
      if (skip >= part.size()) {
        skip -= part.size();
        continue;
      }
      const size_t count = std::min(left, part.size() - skip);
      out->Share(part.Slice(skip, count));
      left -= count;
      skip = 0;
    }
    size -= taken;
    stream.queue_taken_bytes += taken;
    if (stream.queue_taken_bytes < message.size) continue;
    message.parts.clear();
    stream.queue_taken_bytes = 0;
    ++stream.queue_first;
  }
  if (stream.queue_first < kSentKept && stream.queue_first < stream.queue.size()) return;
  stream.queue.erase(stream.queue.begin(), stream.queue.begin() + static_cast<ptrdiff_t>(stream.queue_first));
  stream.queue_first = 0;
}

// --- time ------------------------------------------------------------------------------------

void GrpcSession::WatchDeadline(GrpcStream& stream) {
  if (deadlines_.size() >= kDeadlinesKeptMin && deadlines_.size() > 2 * open_calls_) {
    std::erase_if(deadlines_, [this](const auto& entry) { return h2_->Find(entry.second) == nullptr; });
    std::make_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  }
  deadlines_.emplace_back(stream.deadline_ns, stream.id);
  std::push_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  listener_->OnOutput();
}

int64_t GrpcSession::next_time_ns() const {
  return deadlines_.empty() ? next_stall_check_ns_ : std::min(deadlines_.front().first, next_stall_check_ns_);
}

void GrpcSession::OnTime(int64_t now_ns) {
  now_ns_ = now_ns;
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

// --- the connection --------------------------------------------------------------------------

void GrpcSession::BeginDrain() {
  if (drain_ != Drain::kNo) return;
  drain_ = Drain::kAnnounced;
  h2_->AnnounceShutdown();
  h2_->SendPing(H2Ping::kDrain);
  listener_->OnOutput();
}

void GrpcSession::FinishDrain() {
  if (drain_ == Drain::kDone) return;
  drain_ = Drain::kDone;
  h2_->StopAccepting();
  listener_->OnOutput();
}

void GrpcSession::SendPing() {
  ping_unanswered_ = true;
  h2_->SendPing(H2Ping::kKeepalive);
  listener_->OnOutput();
}

void GrpcSession::OnPong(H2Ping kind) {
  if (kind == H2Ping::kKeepalive) ping_unanswered_ = false;
  if (kind == H2Ping::kDrain && drain_ == Drain::kAnnounced) FinishDrain();
}

}  // namespace stoker::net::internal
