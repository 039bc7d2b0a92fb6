#include "grpc_metadata.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <stoker/base/str_cat.h>

#include "grpc_wire.h"

namespace stoker::net::internal {

void GrpcMetadataCollector::Begin() {
  same_ = 0;
  differs_ = false;
  own_.clear();
}

base::Status GrpcMetadataCollector::Add(std::string_view name, std::string_view value) {
  if (!name.ends_with("-bin")) {
    AddOne(name, value);
    return base::OkStatus();
  }
  for (;;) {
    const size_t comma = std::min(value.find(','), value.size());
    const std::optional<std::string> decoded = DecodeBase64(value.substr(0, comma));
    if (!decoded) {
      return base::Internal(base::StrCat("metadata ", base::Quoted(name),
                                         " is not base64, which names ending in -bin must be"));
    }
    AddOne(name, *decoded);
    if (comma == value.size()) return base::OkStatus();
    value.remove_prefix(comma + 1);
  }
}

void GrpcMetadataCollector::AddOne(std::string_view name, std::string_view value) {
  if (!differs_) {
    if (same_ < last_->size() && (*last_)[same_].first == name && (*last_)[same_].second == value) {
      ++same_;
      return;
    }
    differs_ = true;
    own_.assign(last_->begin(), last_->begin() + static_cast<ptrdiff_t>(same_));
  }
  own_.emplace_back(name, value);
}

std::shared_ptr<const GrpcMetadata> GrpcMetadataCollector::Finish() {
  if (!differs_ && same_ == last_->size()) return last_;
  if (!differs_) own_.assign(last_->begin(), last_->begin() + static_cast<ptrdiff_t>(same_));
  last_ = std::make_shared<const GrpcMetadata>(std::move(own_));
  own_ = {};
  return last_;
}

}  // namespace stoker::net::internal
