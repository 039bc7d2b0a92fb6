#include <stoker/device/lease.h>

namespace stoker::device {
namespace {

class OpenLease final : public Lease {
 public:
  LeaseGrant Acquire() override { return LeaseGrant(); }

 private:
  void Release() override {}
};

}  // namespace

LeaseGrant::~LeaseGrant() {
  if (lease_ != nullptr) lease_->Release();
}

std::unique_ptr<Lease> MakeOpenLease() { return std::make_unique<OpenLease>(); }

}  // namespace stoker::device
