#include "grpc_wire.h"

#include <algorithm>

#include <stoker/base/base64.h>

namespace stoker::net::internal {
namespace {

constexpr int64_t kTimeoutNsMax = 1'000'000'000'000'000'000;
constexpr std::string_view kContentType = "application/grpc";
constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

int64_t UnitNs(char unit) {
  switch (unit) {
    case 'H':
      return 3'600'000'000'000;
    case 'M':
      return 60'000'000'000;
    case 'S':
      return 1'000'000'000;
    case 'm':
      return 1'000'000;
    case 'u':
      return 1'000;
    case 'n':
      return 1;
    default:
      return 0;
  }
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<int64_t> ParseGrpcTimeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  const int64_t unit_ns = UnitNs(text.back());
  if (unit_ns == 0) return std::nullopt;
  text.remove_suffix(1);
  int64_t count = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    count = count * 10 + (digit - '0');
  }
  return count > kTimeoutNsMax / unit_ns ? kTimeoutNsMax : count * unit_ns;
}

bool IsGrpcContentType(std::string_view value) {
  if (!value.starts_with(kContentType)) return false;
  if (value.size() == kContentType.size()) return true;
  const char next = value[kContentType.size()];
  return next == '+' || next == ';' || next == ' ';
}

bool AcceptsCoding(std::string_view accepted, std::string_view coding) {
  while (!accepted.empty()) {
    const size_t comma = std::min(accepted.find(','), accepted.size());
    if (Trim(accepted.substr(0, comma)) == coding) return true;
    accepted.remove_prefix(std::min(comma + 1, accepted.size()));
  }
  return false;
}

std::string EncodeGrpcMessage(std::string_view text, size_t bytes_max) {
  std::string out;
  out.reserve(std::min(text.size(), bytes_max));
  size_t character = 0;  // where the last begun character of UTF-8 lies in `out`
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if ((byte & 0xc0) != 0x80) character = out.size();
    const bool plain = byte >= 0x20 && byte <= 0x7e && byte != '%';
    if (out.size() + (plain ? 1 : 3) > bytes_max) {
      out.resize(character);
      break;
    }
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    }
  }
  return out;
}

std::string EncodeBase64(std::string_view data) {
  std::string out;
  out.reserve((data.size() * 4 + 2) / 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : data) {
    bits = bits << 8 | static_cast<uint8_t>(c);
    count += 8;
    for (; count >= 6; count -= 6) out += kBase64Digits[bits >> (count - 6) & 63];
  }
  if (count > 0) out += kBase64Digits[bits << (6 - count) & 63];
  return out;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  const size_t missing = (4 - text.size() % 4) % 4;
  auto decoded =
      missing == 0 ? base::DecodeBase64(text) : base::DecodeBase64(std::string(text).append(missing, '='));
  if (!decoded.ok()) return std::nullopt;
  return *std::move(decoded);
}

bool IsMetadataName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

bool IsMetadataValue(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace stoker::net::internal
