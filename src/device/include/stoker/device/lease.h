#pragma once

#include <memory>
#include <utility>

namespace stoker::device {

class Lease;

/// Holds device time until it goes out of scope. Move-only.
class LeaseGrant {
 public:
  LeaseGrant() = default;
  explicit LeaseGrant(Lease* lease) : lease_(lease) {}
  LeaseGrant(LeaseGrant&& other) noexcept : lease_(std::exchange(other.lease_, nullptr)) {}
  LeaseGrant& operator=(LeaseGrant&& other) noexcept {
    std::swap(lease_, other.lease_);
    return *this;
  }
  ~LeaseGrant();

 private:
  Lease* lease_ = nullptr;
};

/// The right to use device time until a moment: what runs on a device asks here first, so that
/// tenants can share it. Thread-safe; outlives its grants.
class Lease {
 public:
  virtual ~Lease() = default;
  /// Waits until the device may be used. Give the grant back (drop it) as soon as the work is done.
  virtual LeaseGrant Acquire() = 0;

 private:
  friend class LeaseGrant;
  virtual void Release() = 0;
};

/// Grants at once, always: a device that nobody shares.
std::unique_ptr<Lease> MakeOpenLease();

}  // namespace stoker::device
