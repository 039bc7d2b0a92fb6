// Decompression of anything: never more than the bound, no crash, and what we compress comes back.

#include <cstdint>
#include <span>

#include <stoker/base/check.h>
#include <stoker/net/compression.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  if (size < 1) return 0;
  const auto input = std::as_bytes(std::span(data + 1, size - 1));
  const auto coding = data[0] % 2 == 0 ? net::ContentCoding::kGzip : net::ContentCoding::kDeflate;
  const size_t bound = static_cast<size_t>(data[0]) * 300;
  const auto out = net::Decompress(coding, input, bound);
  if (out.ok()) CHECK(out->size() <= bound);
  const base::Bytes whole(input, nullptr);
  const base::Bytes parts[] = {whole.Slice(0, input.size() / 3),
                               whole.Slice(input.size() / 3, input.size() - input.size() / 3)};
  const auto back = net::Decompress(coding, net::Compress(coding, parts).span(), input.size());
  CHECK(back.ok() && back->text() == whole.text());
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(net::ChooseCoding(text));
  return 0;
}
