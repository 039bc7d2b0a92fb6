#include <stoker/base/bytes.h>

#include <new>

#include <stoker/base/check.h>

namespace stoker::base {

Bytes Bytes::Own(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const std::span<const char> chars(*owner);
  return {std::as_bytes(chars), std::move(owner)};
}

Bytes Bytes::Static(std::string_view text) {
  return {std::as_bytes(std::span<const char>(text.data(), text.size())), nullptr};
}

Bytes Bytes::Slice(size_t offset, size_t size) const {
  CHECK(offset <= view_.size() && size <= view_.size() - offset);
  return {view_.subspan(offset, size), owner_};
}

MutableBytes MutableBytes::Allocate(size_t size) {
  static constexpr std::align_val_t kAlignment{64};
  MutableBytes out;
  auto* memory = static_cast<std::byte*>(::operator new(size == 0 ? 1 : size, kAlignment));
  out.data_ = std::shared_ptr<std::byte>(memory, [](std::byte* p) { ::operator delete(p, kAlignment); });
  out.size_ = size;
  return out;
}

Bytes MutableBytes::Freeze(size_t size) && {
  CHECK(size <= size_);
  const std::byte* start = data_.get();
  size_ = 0;
  return {std::span(start, size), std::shared_ptr<const void>(std::move(data_))};
}

}  // namespace stoker::base
