// The small encodings of gRPC headers: bounds hold and inverses agree for any text.

#include <cstdint>
#include <string>

#include <stoker/base/check.h>

#include "grpc_metadata.h"
#include "grpc_wire.h"

namespace stoker::net::internal {
namespace {

std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    CHECK(i + 2 < text.size());
    out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

void Run(std::string_view text) {
  const auto timeout_ns = ParseGrpcTimeout(text);
  CHECK(!timeout_ns || (*timeout_ns >= 0 && *timeout_ns <= 1'000'000'000'000'000'000));
  static_cast<void>(IsGrpcContentType(text));
  CHECK(!AcceptsCoding(text, "gzip") || text.find("gzip") != std::string_view::npos);
  CHECK(Unescape(EncodeGrpcMessage(text, text.size() * 3)) == text);
  const std::string cut = EncodeGrpcMessage(text, text.size() / 2);
  CHECK(cut.size() <= text.size() / 2 && IsMetadataValue(cut));
  CHECK(text.starts_with(Unescape(cut)));
  CHECK(DecodeBase64(EncodeBase64(text)) == text);
  static_cast<void>(DecodeBase64(text));

  GrpcMetadataCollector collector;
  for (int call = 0; call < 2; ++call) {
    collector.Begin();
    const bool good = collector.Add("x-bin", text).ok();
    static_cast<void>(collector.Add("x-text", text));
    const auto metadata = collector.Finish();
    CHECK(metadata->back().second == text && metadata->size() >= (good ? 2u : 1u));
  }
}

}  // namespace
}  // namespace stoker::net::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::net::internal::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
