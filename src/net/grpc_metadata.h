#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <stoker/base/status.h>
#include <stoker/net/grpc_call.h>

namespace stoker::net::internal {

/// Collects the metadata of one call after the other. A client tends to send the same with each:
/// then calls share one copy and nothing is allocated. Not thread-safe.
class GrpcMetadataCollector {
 public:
  GrpcMetadataCollector() : last_(std::make_shared<const GrpcMetadata>()) {}
  void Begin();
  /// Adds a field; decodes -bin values (also several, with commas between).
  base::Status Add(std::string_view name, std::string_view value);
  std::shared_ptr<const GrpcMetadata> Finish();

 private:
  void AddOne(std::string_view name, std::string_view value);

  std::shared_ptr<const GrpcMetadata> last_;
  size_t same_ = 0;       // leading fields equal to those of last_
  bool differs_ = false;  // the rest goes to own_
  GrpcMetadata own_;
};

}  // namespace stoker::net::internal
