#include "receive_memory.h"

#include <new>

namespace stoker::net::internal {
namespace {
constexpr std::align_val_t kAlignment{64};
}  // namespace

bool ReceiveBudget::Take(size_t bytes) {
  const size_t before = used_.fetch_add(bytes, std::memory_order_relaxed);
  if (before + bytes <= bytes_max_) return true;
  Give(bytes);
  return false;
}

std::shared_ptr<ReceiveMemory> ReceiveMemory::Allocate(size_t capacity) {
  auto* data =
      static_cast<std::byte*>(::operator new(capacity == 0 ? 1 : capacity, kAlignment, std::nothrow));
  if (data == nullptr) return nullptr;
  return std::shared_ptr<ReceiveMemory>(new ReceiveMemory(data, capacity));
}

ReceiveMemory::~ReceiveMemory() {
  ::operator delete(data_, kAlignment);
  if (budget_ != nullptr) budget_->Give(charged_);
}

void ReceiveMemory::ChargeAnyway(const std::shared_ptr<ReceiveBudget>& budget, size_t bytes) {
  budget->TakeAnyway(bytes);
  if (budget_ == nullptr) budget_ = budget;
  charged_ += bytes;
}

bool ReceiveMemory::Charge(const std::shared_ptr<ReceiveBudget>& budget, size_t bytes) {
  if (!budget->Take(bytes)) return false;
  if (budget_ == nullptr) budget_ = budget;
  charged_ += bytes;
  return true;
}

}  // namespace stoker::net::internal
