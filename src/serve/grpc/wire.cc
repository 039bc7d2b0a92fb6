#include "grpc/wire.h"

#include <algorithm>

namespace stoker::serve {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kVarintBytesMax = 10;
constexpr int kShortVarintBytesMax = 5;  // of tags and lengths

bool ReadVarintOf(const char** at, const char* end, int bytes_max, uint64_t* value) {
  const char* p = *at;
  uint64_t result = 0;
  for (int i = 0; i < bytes_max; ++i) {
    if (p == end) return false;
    const auto byte = static_cast<uint8_t>(*p++);
    result |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      *at = p;
      *value = result;
      return true;
    }
  }
  return false;
}

/// A tag or a length: mostly one byte.
inline bool ReadShort(const char** at, const char* end, uint64_t* value) {
  if (*at != end && static_cast<uint8_t>(**at) < 0x80) {
    *value = static_cast<uint8_t>(*(*at)++);
    return true;
  }
  return ReadVarintOf(at, end, kShortVarintBytesMax, value);
}

template <typename T>
bool ReadFixed(const char** at, const char* end, uint64_t* value) {
  if (static_cast<size_t>(end - *at) < sizeof(T)) return false;
  T fixed;
  std::memcpy(&fixed, *at, sizeof(T));
  *at += sizeof(T);
  *value = fixed;
  return true;
}

}  // namespace

bool ReadVarint(const char** at, const char* end, uint64_t* value) {
  return ReadVarintOf(at, end, kVarintBytesMax, value);
}

size_t CountVarints(std::string_view data) {
  return static_cast<size_t>(
      std::count_if(data.begin(), data.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; }));
}

bool WireReader::Next(WireField* field) {
  if (!ok_ || at_ == end_) return false;
  uint64_t tag = 0;
  if (!ReadShort(&at_, end_, &tag) || tag > UINT32_MAX) return Fail();
  field->number = static_cast<uint32_t>(tag >> 3);
  if (field->number == 0) return Fail();
  field->type = static_cast<WireType>(tag & 7);
  switch (field->type) {
    case WireType::kVarint:
      return ReadVarint(&at_, end_, &field->value) || Fail();
    case WireType::kFixed64:
      return ReadFixed<uint64_t>(&at_, end_, &field->value) || Fail();
    case WireType::kFixed32:
      return ReadFixed<uint32_t>(&at_, end_, &field->value) || Fail();
    case WireType::kBytes: {
      uint64_t size = 0;
      if (!ReadShort(&at_, end_, &size) || size > static_cast<size_t>(end_ - at_)) return Fail();
      field->bytes = {at_, static_cast<size_t>(size)};
      at_ += size;
      return true;
    }
  }
  return Fail();  // a group, or no wire type at all
}

}  // namespace stoker::serve
