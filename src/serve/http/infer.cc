#include "http/infer.h"

#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include <stoker/base/executor.h>
#include <stoker/base/memory_budget.h>
#include <stoker/base/str_cat.h>
#include <stoker/host/host.h>

#include "http/infer_answer.h"
#include "http/infer_parser.h"
#include "kserve/error_text.h"

namespace stoker::serve {
namespace {

using base::StrCat;

/// JSON answers beyond this are written on the executor, so that an engine's thread is not kept.
constexpr size_t kJsonOnEngineThreadMax = 64 << 10;

void SendAnswer(const HttpAnswerContext& context, host::InferResponse response,
                net::HttpResponder* responder) {
  auto answer = WriteInferAnswer(context, std::move(response));
  if (answer.ok()) {
    responder->Send(std::move(answer).value());
  } else {
    responder->Send(
        ErrorAnswer(answer.status().code(), WithRequestId(context.id, answer.status().message())));
  }
}

/// Waits for the host's answer and writes it to the connection.
class HttpInferSink final : public host::ResponseSink {
 public:
  HttpInferSink(HttpAnswerContext context, base::Executor* executor, net::HttpResponder responder)
      : context_(std::move(context)), executor_(executor), responder_(std::move(responder)) {}

  void OnResponse(host::InferResponse response) override {
    if (answered_) return;
    answered_ = true;
    if (!response.status.ok()) {
      responder_.Send(
          ErrorAnswer(response.status.code(), WithRequestId(context_.id, response.status.message())));
    } else if (!response.final) {
      responder_.Send(ErrorAnswer(
          base::StatusCode::kUnimplemented,
          "HTTP inference doesn't support models with decoupled transaction policy; use a gRPC stream"));
    } else if (NeedsExecutor(response)) {
      SendOnExecutor(std::move(response));
    } else {
      SendAnswer(context_, std::move(response), &responder_);
    }
  }

 private:
  bool NeedsExecutor(const host::InferResponse& response) const {
    if (context_.coding != net::ContentCoding::kIdentity) return true;
    return JsonTensorBytes(context_, response) > kJsonOnEngineThreadMax;
  }

  void SendOnExecutor(host::InferResponse response) {
    struct Parcel {
      HttpAnswerContext context;
      host::InferResponse response;
      net::HttpResponder responder;
    };
    // Shared only because std::function must be copyable.
    auto parcel =
        std::make_shared<Parcel>(Parcel{std::move(context_), std::move(response), std::move(responder_)});
    auto write = [parcel] { SendAnswer(parcel->context, std::move(parcel->response), &parcel->responder); };
    if (!executor_->Submit(write).ok()) write();  // a full pool slows this answer down; it does not lose it
  }

  HttpAnswerContext context_;
  base::Executor* executor_;
  net::HttpResponder responder_;
  bool answered_ = false;
};

struct ContentEncoding {
  net::ContentCoding coding = net::ContentCoding::kIdentity;
  bool known = true;
};

ContentEncoding ReadEncoding(const net::HttpRequest& request) {
  const std::string_view value = request.Header("content-encoding");
  if (value.data() == nullptr || value == "identity") return {};
  if (value == "gzip") return {net::ContentCoding::kGzip, true};
  if (value == "deflate") return {net::ContentCoding::kDeflate, true};
  return {net::ContentCoding::kIdentity, false};
}

/// One inference on its way from the connection to the host.
struct InferJob {
  host::ModelRef model;
  ContentEncoding encoding;
  net::HttpRequest request;
  net::HttpResponder responder;
};

/// How many bytes of the body are JSON; nothing for the raw form.
base::Result<std::optional<size_t>> JsonBytes(const net::HttpRequest& request, size_t body_bytes) {
  const std::string_view value = request.Header("inference-header-content-length");
  if (value.data() == nullptr) {
    if (body_bytes == 0) return std::optional<size_t>();
    return std::optional<size_t>(body_bytes);
  }
  long long number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc::invalid_argument || (error == std::errc() && end != value.data() + value.size())) {
    return base::InvalidArgument(
        StrCat("Unable to parse Inference-Header-Content-Length, got ", base::Quoted(value)));
  }
  if (error != std::errc() || number < 0 || static_cast<unsigned long long>(number) > body_bytes) {
    return base::InvalidArgument(StrCat("Inference-Header-Content-Length ", value,
                                        " must be between 0 and the ", body_bytes, " bytes of the body"));
  }
  if (number == 0) return std::optional<size_t>();
  return std::optional<size_t>(static_cast<size_t>(number));
}

/// Unpacked bodies count as long as somebody holds a part of them: requests may wait long in a queue.
base::Result<base::Bytes> Unpack(const DoorContext& context, const DoorOptions& options,
                                 net::ContentCoding coding, const base::Bytes& body) {
  STOKER_ASSIGN_OR_RETURN(base::Bytes plain, net::Decompress(coding, body.span(), options.input_bytes_max));
  auto charged = base::Charge(context.unpacked, std::move(plain));
  if (!charged.ok()) return base::Unavailable(charged.status().message());
  return charged;
}

base::Result<HttpInferCall> ReadCall(const DoorContext& context, const DoorOptions& options,
                                     const InferJob& job) {
  base::Bytes body = job.request.body;
  if (job.encoding.coding != net::ContentCoding::kIdentity) {
    STOKER_ASSIGN_OR_RETURN(body, Unpack(context, options, job.encoding.coding, job.request.body));
  }
  STOKER_ASSIGN_OR_RETURN(const auto json_bytes, JsonBytes(job.request, body.size()));
  if (!json_bytes) return ParseRawInfer(job.model, body);
  return ParseInfer(job.model, body, *json_bytes, options);
}

void Run(const DoorContext& context, const DoorOptions& options, InferJob job) {
  auto call = ReadCall(context, options, job);
  if (!call.ok()) return job.responder.Send(ErrorAnswer(call.status()));
  call->request->received_ns = job.request.received_ns;
  if (!job.model->runs_inline()) {
    call->request->cancellation = std::make_shared<host::Cancellation>();
    job.responder.OnDisconnect([cancellation = call->request->cancellation] { cancellation->Cancel(); });
  }
  HttpAnswerContext answer{std::move(job.model), call->request->id, std::move(call->form),
                           net::ContentCoding::kIdentity, options.classes_elements_max};
  if (const auto accept = job.request.Header("accept-encoding"); !accept.empty()) {
    answer.coding = net::ChooseCoding(accept);
  }
  auto sink = std::make_unique<HttpInferSink>(std::move(answer), context.executor, std::move(job.responder));
  context.host->Submit(std::move(call->request), std::move(sink));
}

net::HttpResponse UnknownEncoding(std::string_view encoding) {
  net::HttpResponse answer = ErrorAnswer(
      base::StatusCode::kUnimplemented,
      StrCat("Unsupported Content-Encoding ", base::Quoted(encoding), "; gzip and deflate are supported"));
  answer.headers.emplace_back("Accept-Encoding", "gzip, deflate");
  return answer;
}

}  // namespace

void HandleInfer(const DoorContext& context, const DoorOptions& options, const HttpRouteMatch& match,
                 net::HttpRequest request, net::HttpResponder responder) {
  auto model = context.host->Find(match.model, match.version);
  if (!model.ok()) return responder.Send(ErrorAnswer(model.status()));
  const ContentEncoding encoding = ReadEncoding(request);
  if (!encoding.known) return responder.Send(UnknownEncoding(request.Header("content-encoding")));
  InferJob job{std::move(model).value(), encoding, std::move(request), std::move(responder)};
  const bool small = job.request.body.size() <= options.inline_body_bytes_max;
  if (small && encoding.coding == net::ContentCoding::kIdentity) return Run(context, options, std::move(job));
  // Shared only because std::function must be copyable.
  auto parcel = std::make_shared<InferJob>(std::move(job));
  const base::Status queued =
      context.executor->Submit([&context, &options, parcel] { Run(context, options, std::move(*parcel)); });
  if (!queued.ok()) parcel->responder.Send(ErrorAnswer(base::StatusCode::kUnavailable, queued.message()));
}

}  // namespace stoker::serve
