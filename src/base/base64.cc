#include <stoker/base/base64.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include <stoker/base/str_cat.h>

namespace stoker::base {
namespace {

constexpr uint8_t kInvalid = 64;

constexpr auto kValues = [] {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<uint8_t, 256> table{};
  table.fill(kInvalid);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    table[static_cast<uint8_t>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  return table;
}();

uint32_t Value(char c) { return kValues[static_cast<uint8_t>(c)]; }

Status BadCharacter(std::string_view text, size_t from) {
  while (Value(text[from]) < kInvalid) ++from;
  return InvalidArgument(StrCat("base64: found ", Quoted(text.substr(from, 1)), " at byte ", from,
                                ", expected A-Z, a-z, 0-9, + or / (= only as padding at the end)"));
}

}  // namespace

Result<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) {
    return InvalidArgument(StrCat("base64: the text has ", text.size(),
                                  " characters, expected a multiple of 4 (pad it with =)"));
  }
  std::string out;
  if (text.empty()) return out;
  const size_t padding = !text.ends_with('=') ? 0 : text.ends_with("==") ? 2 : 1;
  out.resize(text.size() / 4 * 3);
  char* at = out.data();
  const size_t whole = text.size() - (padding != 0 ? 4 : 0);
  for (size_t i = 0; i < whole; i += 4) {
    const uint32_t a = Value(text[i]), b = Value(text[i + 1]), c = Value(text[i + 2]), d = Value(text[i + 3]);
    if ((a | b | c | d) >= kInvalid) return BadCharacter(text, i);
    const uint32_t bits = a << 18 | b << 12 | c << 6 | d;
    *at++ = static_cast<char>(bits >> 16);
    *at++ = static_cast<char>(bits >> 8);
    *at++ = static_cast<char>(bits);
  }
  if (padding != 0) {
    const uint32_t a = Value(text[whole]), b = Value(text[whole + 1]);
    const uint32_t c = padding == 2 ? 0 : Value(text[whole + 2]);
    if ((a | b | c) >= kInvalid) return BadCharacter(text, whole);
    const uint32_t bits = a << 18 | b << 12 | c << 6;
    if ((bits & (padding == 2 ? 0xFFFF : 0xFF)) != 0) {
      return InvalidArgument("base64: the last character before the padding has bits that belong to no byte");
    }
    *at++ = static_cast<char>(bits >> 16);
    if (padding == 1) *at++ = static_cast<char>(bits >> 8);
  }
  out.resize(static_cast<size_t>(at - out.data()));
  return out;
}

}  // namespace stoker::base
