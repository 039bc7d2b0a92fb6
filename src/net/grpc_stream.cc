#include "grpc_stream.h"

#include <limits>
#include <utility>

#include <stoker/base/str_cat.h>

#include "grpc_session.h"

namespace stoker::net {

namespace internal {
namespace {

constexpr size_t kCompressBytesMin = 1024;  // smaller messages do not get smaller by enough
constexpr size_t kMessageBytesMax = std::numeric_limits<uint32_t>::max();

size_t TotalBytes(const std::vector<base::Bytes>& parts) {
  size_t total = 0;
  for (const base::Bytes& part : parts) total += part.size();
  return total;
}

}  // namespace

GrpcStream::GrpcStream(GrpcSession* owner, std::shared_ptr<const GrpcPeer> peer, base::MemoryBudget* budget,
                       size_t message_bytes_max)
    : session(owner),
      deframer(message_bytes_max, budget),
      peer_(std::move(peer)),
      // Refers to this object without owning it; call() adds the ownership.
      call_(std::shared_ptr<GrpcStream>(std::shared_ptr<void>(), this)) {}

std::shared_ptr<GrpcCall> GrpcStream::call() { return {shared_from_this(), &call_}; }

GrpcOutMessage GrpcStream::Frame(std::vector<base::Bytes> parts) const {
  GrpcOutMessage message;
  size_t size = TotalBytes(parts);
  bool compressed = false;
  if (response_coding != ContentCoding::kIdentity && size >= kCompressBytesMin) {
    base::Bytes smaller = Compress(response_coding, parts);
    compressed = smaller.size() < size;
    if (compressed) {
      size = smaller.size();
      parts.clear();
      parts.push_back(std::move(smaller));
    }
  }
  message.prefix = MakeGrpcPrefix(compressed, static_cast<uint32_t>(size));
  message.parts = std::move(parts);
  message.size = kGrpcPrefixBytes + size;
  return message;
}

bool GrpcStream::Write(std::vector<base::Bytes> parts) {
  if (end_claimed_.load(std::memory_order_acquire)) return false;
  if (backlog_bytes_.load(std::memory_order_relaxed) >= peer_->write_backlog_bytes_max) return false;
  const size_t size = TotalBytes(parts);
  if (size > kMessageBytesMax) {
    Finish(base::ResourceExhausted(
               base::StrCat("answer of ", size, " bytes; gRPC frames at most ", kMessageBytesMax)),
           {});
    return false;
  }
  GrpcOutMessage message = Frame(std::move(parts));
  AddBacklog(message.size);
  if (posted_.load(std::memory_order_relaxed) == 0 && peer_->port->InOwnThread()) {
    if (session != nullptr) session->Send(*this, std::move(message));
    return true;
  }
  posted_.fetch_add(1, std::memory_order_relaxed);
  peer_->port->Post({shared_from_this(), false, std::move(message), {}, {}});
  return true;
}

void GrpcStream::Finish(base::Status status, GrpcMetadata trailers) {
  if (!ClaimEnd()) return;
  if (posted_.load(std::memory_order_relaxed) == 0 && peer_->port->InOwnThread()) {
    if (session != nullptr) session->End(*this, std::move(status), std::move(trailers));
    return;
  }
  posted_.fetch_add(1, std::memory_order_relaxed);
  peer_->port->Post({shared_from_this(), true, {}, std::move(status), std::move(trailers)});
}

void GrpcStream::Apply(GrpcAnswer answer) {
  GrpcStream& stream = *answer.stream;
  stream.posted_.fetch_sub(1, std::memory_order_relaxed);
  if (stream.session == nullptr) return;
  if (answer.finish) {
    stream.session->End(stream, std::move(answer.status), std::move(answer.trailers));
  } else {
    stream.session->Send(stream, std::move(answer.message));
  }
}

}  // namespace internal

GrpcCall::GrpcCall(std::shared_ptr<internal::GrpcStream> stream) : stream_(std::move(stream)) {}
std::string_view GrpcCall::path() const { return *stream_->path; }
const GrpcMetadata& GrpcCall::metadata() const { return *stream_->metadata; }
std::string_view GrpcCall::peer() const { return stream_->peer()->address; }
int64_t GrpcCall::deadline_ns() const { return stream_->deadline_ns; }
int64_t GrpcCall::received_ns() const { return stream_->received_ns; }
bool GrpcCall::Write(std::vector<base::Bytes> parts) { return stream_->Write(std::move(parts)); }
void GrpcCall::Finish(base::Status status, GrpcMetadata trailers) {
  stream_->Finish(std::move(status), std::move(trailers));
}
bool GrpcCall::cancelled() const { return stream_->cancelled(); }

}  // namespace stoker::net
