#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace stoker::serve {

/// Protobuf's wire types. Groups (3 and 4) are not read.
enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field as it stands on the wire.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // of kVarint, kFixed64 and kFixed32
  std::string_view bytes;  // of kBytes: a view of what is read

  bool Is(WireType wanted) const { return type == wanted; }
};

/// Walks the fields of one serialised message without copying. Everything is checked against the end
/// of the data; what cannot be read ends the walk with ok() false. A value type, not thread-safe.
class WireReader {
 public:
  explicit WireReader(std::string_view data) : at_(data.data()), end_(data.data() + data.size()) {}
  /// The next field, or false at the end and at a fault.
  bool Next(WireField* field);
  bool ok() const { return ok_; }

 private:
  bool Fail() {
    ok_ = false;
    return false;
  }

  const char* at_;
  const char* end_;
  bool ok_ = true;
};

/// Reads one varint of at most ten bytes (bits above 64 are dropped, as protobuf does) and moves `*at`
/// behind it; false when it does not end before `end`.
bool ReadVarint(const char** at, const char* end, uint64_t* value);

/// How many varints `data` holds: bytes that end one.
size_t CountVarints(std::string_view data);

/// Bytes that `value` takes as a varint.
constexpr size_t VarintSize(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}
constexpr size_t TagSize(uint32_t number) { return VarintSize(uint64_t{number} << 3); }
/// Bytes of a length-delimited field with `size` bytes of content.
constexpr size_t BytesFieldSize(uint32_t number, size_t size) {
  return TagSize(number) + VarintSize(size) + size;
}
constexpr size_t VarintFieldSize(uint32_t number, uint64_t value) {
  return TagSize(number) + VarintSize(value);
}

/// Writes fields into memory that the caller has measured with the functions above.
class WireWriter {
 public:
  explicit WireWriter(std::byte* out) : at_(reinterpret_cast<char*>(out)) {}
  const char* at() const { return at_; }

  void Varint(uint64_t value) {
    while (value >= 0x80) {
      *at_++ = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    *at_++ = static_cast<char>(value);
  }
  void Tag(uint32_t number, WireType type) { Varint(uint64_t{number} << 3 | static_cast<uint64_t>(type)); }
  /// The head of a length-delimited field: `size` bytes have to follow.
  void BytesHead(uint32_t number, size_t size) {
    Tag(number, WireType::kBytes);
    Varint(size);
  }
  void Raw(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  void BytesField(uint32_t number, std::string_view bytes) {
    BytesHead(number, bytes.size());
    Raw(bytes);
  }
  void VarintField(uint32_t number, uint64_t value) {
    Tag(number, WireType::kVarint);
    Varint(value);
  }
  void DoubleField(uint32_t number, double value) {
    Tag(number, WireType::kFixed64);
    std::memcpy(at_, &value, sizeof(value));
    at_ += sizeof(value);
  }

 private:
  char* at_;
};

}  // namespace stoker::serve
