#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/host/host.h>
#include <stoker/host/model_config.h>

namespace stoker::host {

/// A model as a look at the folders shows it, its configuration unread.
struct ModelListing {
  std::string name;
  std::string folder;       // of the model
  std::string fingerprint;  // changes whenever a file of the model changes (names, sizes, times)
  base::Status problem;     // why it can never be served, such as the same name in two repositories
};

/// One version that the version policy picks.
struct VersionDefinition {
  int64_t version = 0;
  std::string path;         // its folder, or a temporary one of overrides
  std::string fingerprint;  // of the files that this version is made of
};

/// Everything needed to load a model: plain values.
struct ModelDefinition {
  ModelConfig config;                       // complete: auto-completed, checked, every feature in it exists
  std::vector<VersionDefinition> versions;  // ascending; empty is a valid answer of a specific policy
  std::string listing_fingerprint;          // of the listing that it was read from
  /// Of the configuration without its instance groups: when neither this nor a version's own
  /// fingerprint changes, a reload changes nothing but the number of instances.
  std::string config_fingerprint;
  std::vector<std::vector<std::string>> labels;  // per output of `config`, empty without a label file
  std::string folder;                            // of the model, where warmup/ lies
  std::shared_ptr<const void> owner;             // keeps temporary files; shared by the versions made from it
};

/// What a load request lays over the files.
struct ModelOverrides {
  const std::string* config_json = nullptr;                                 // null: the file's
  const std::vector<std::pair<std::string, base::Bytes>>* files = nullptr;  // null or empty: the folder's
  bool empty() const { return config_json == nullptr && (files == nullptr || files->empty()); }
};

/// Where models come from. Thread-safe; calls may take long and are made on loading threads only.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  /// The names of the models there are, ascending. Quick: looks at no files.
  virtual base::Result<std::vector<std::string>> Names() = 0;
  /// All models there are, by name ascending. A folder that cannot be read is an error that names it.
  virtual base::Result<std::vector<ModelListing>> Scan() = 0;
  /// One model. kNotFound when there is no such folder.
  virtual base::Result<ModelListing> Look(std::string_view name) = 0;
  /// Reads and completes the configuration. Errors name file, line and field.
  virtual base::Result<ModelDefinition> Read(const ModelListing& listing,
                                             const ModelOverrides& overrides) = 0;
};

}  // namespace stoker::host
