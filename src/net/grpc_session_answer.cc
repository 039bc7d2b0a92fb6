// The answering half of GrpcSession: messages, ends and failures of calls, and what nghttp2 pulls of them.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <stoker/base/check.h>

#include "grpc_session.h"
#include "grpc_wire.h"

namespace stoker::net::internal {
namespace {

constexpr size_t kSentKept = 64;           // messages already sent that a queue may hold
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

void GrpcSession::Send(GrpcStream& stream, GrpcOutMessage message) {
  if (stream.ended) {
    stream.TakeBacklog(message.size);
    return;
  }
  if (stream.queue_bytes == 0) stream.write_progress_ns = host_->NowNs();
  WatchStall(shared_->options.write_timeout_ns);
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
  host_->OnOutput();
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
  host_->OnOutput();
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
  host_->OnOutput();
}

void GrpcSession::RefuseHttp(GrpcStream& stream, std::string_view http_status, base::Status status) {
  stream.ClaimEnd();
  stream.ended = true;
  stream.responded = true;
  stream.final_status = std::move(status);
  SubmitEnd(stream, http_status);
  host_->OnOutput();
}

void GrpcSession::DropQueue(GrpcStream& stream) {
  stream.TakeBacklog(stream.queue_bytes);
  queue_bytes_ -= stream.queue_bytes;
  stream.queue_bytes = 0;
  stream.queue.clear();
  stream.queue_first = 0;
}

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
  stream.write_progress_ns = host_->NowNs();
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

}  // namespace stoker::net::internal
