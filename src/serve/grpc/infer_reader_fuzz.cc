// Any bytes: reading a ModelInferRequest stays inside of them, and what is taken can be answered: every
// tensor lies in the message or in memory of its own.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "grpc/infer_reader.h"
#include "grpc/infer_writer.h"
#include "testing/table_model.h"

namespace {

using stoker::base::Bytes;
using stoker::tensor::DataType;

stoker::host::ModelRef MakeModel() {
  stoker::serve::testing::TableModel model(0);
  for (int type = 1; type < stoker::tensor::kDataTypeCount; ++type) {
    model.Input("IN" + std::to_string(type), static_cast<DataType>(type), {-1});
    model.Output("IN" + std::to_string(type), static_cast<DataType>(type), {-1});
  }
  return model.Ref();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const stoker::host::ModelRef model = MakeModel();
  const Bytes message = Bytes::Own(std::string(reinterpret_cast<const char*>(data), size));
  const auto envelope = stoker::serve::ReadEnvelope(message);
  if (!envelope.ok()) return 0;
  auto call = stoker::serve::ReadInfer(*envelope, model, message, {});
  if (!call.ok()) return 0;
  stoker::host::InferResponse response;
  stoker::serve::GrpcAnswerContext context;
  context.model = model;
  context.id = call->request->id;
  context.stream = size % 2 == 1;
  for (const auto& parameter : call->request->parameters) response.parameters.push_back(parameter);
  size_t bytes = 0;
  for (auto& input : call->request->inputs) {
    const int index = model->FindOutput(input.name);
    bytes += input.tensor.bytes.text().find('\x7f') == std::string_view::npos ? 1 : 2;  // reads all of it
    if (index >= 0) response.outputs.push_back({static_cast<size_t>(index), input.tensor});
  }
  const auto parts = stoker::serve::WriteInferResponse(context, std::move(response));
  if (!parts.ok()) std::abort();
  return bytes == SIZE_MAX ? 1 : 0;
}
