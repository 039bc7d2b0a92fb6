#include <stoker/base/memory_budget.h>

#include <stoker/base/check.h>
#include <stoker/base/str_cat.h>

namespace stoker::base {

MemoryBudget::Reservation& MemoryBudget::Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Status MemoryBudget::Reservation::Grow(size_t more) {
  CHECK(budget_ != nullptr);
  STOKER_RETURN_IF_ERROR(budget_->Take(more));
  bytes_ += more;
  return OkStatus();
}

void MemoryBudget::Reservation::Release() {
  if (budget_ == nullptr) return;
  budget_->used_bytes_.fetch_sub(bytes_, std::memory_order_relaxed);
  budget_ = nullptr;
  bytes_ = 0;
}

Result<MemoryBudget::Reservation> MemoryBudget::Reserve(size_t bytes) {
  STOKER_RETURN_IF_ERROR(Take(bytes));
  return Reservation(this, bytes);
}

Status MemoryBudget::Take(size_t bytes) {
  size_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_bytes_ - used) {
      return ResourceExhausted(StrCat("the memory budget for ", name_, " is exhausted: ", bytes,
                                      " bytes wanted, ", limit_bytes_ - used, " of ", limit_bytes_,
                                      " free; try again later or raise the limit"));
    }
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  size_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < used + bytes &&
         !peak_bytes_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
  }
  return OkStatus();
}

Result<Bytes> Charge(const std::shared_ptr<MemoryBudget>& budget, Bytes bytes) {
  struct Charged {
    Bytes bytes;
    std::shared_ptr<MemoryBudget> budget;  // shared: the bytes may outlive whoever made it
    MemoryBudget::Reservation reservation;
  };
  STOKER_ASSIGN_OR_RETURN(MemoryBudget::Reservation reservation, budget->Reserve(bytes.size()));
  const auto view = bytes.span();
  return Bytes(view,
               std::make_shared<const Charged>(Charged{std::move(bytes), budget, std::move(reservation)}));
}

}  // namespace stoker::base
