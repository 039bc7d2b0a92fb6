#include "repository/repository.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include <stoker/base/str_cat.h>

#include "repository/config_complete.h"
#include "repository/config_support.h"
#include "repository/config_text.h"
#include "repository/config_values.h"
#include "repository/folder_files.h"

namespace stoker::host {
namespace {

using base::StrCat;
namespace fs = std::filesystem;

constexpr size_t kConfigBytesMax = 4 << 20;
constexpr size_t kLabelBytesMax = 64 << 20;
constexpr size_t kModelNameBytesMax = 255;

/// Names that can stand in a route and a path.
bool IsModelName(std::string_view name) {
  return !name.empty() && name.size() <= kModelNameBytesMax && name.front() != '.' &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

int64_t DefaultMaxBatchSize(const HostOptions& options) {
  const auto global = options.backend_config.find("");
  if (global == options.backend_config.end()) return 4;
  const auto value = global->second.find("default-max-batch-size");
  if (value == global->second.end()) return 4;
  int64_t number = 4;
  std::from_chars(value->second.data(), value->second.data() + value->second.size(), number);
  return std::clamp<int64_t>(number, 0, INT32_MAX);
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> out;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    out.push_back(std::move(line));
    start = end + 1;
  }
  return out;
}

void PickVersions(const VersionPolicyConfig& policy, std::vector<std::pair<int64_t, std::string>>* versions) {
  if (policy.kind == VersionPolicyConfig::Kind::kLatest && versions->size() > policy.latest) {
    versions->erase(versions->begin(), versions->end() - policy.latest);
  }
  if (policy.kind == VersionPolicyConfig::Kind::kSpecific) {
    std::erase_if(*versions, [&policy](const auto& v) {
      return std::find(policy.specific.begin(), policy.specific.end(), v.first) == policy.specific.end();
    });
  }
}

class FolderSource final : public ModelSource {
 public:
  FolderSource(const HostOptions& options, EngineSet* engines) : options_(options), engines_(engines) {}

  base::Result<std::vector<std::string>> Names() override {
    std::set<std::string> names;
    if (!options_.single_model_file.empty()) names.insert(SingleName());
    STOKER_RETURN_IF_ERROR(
        EachFolder([&names](const std::string& name, const fs::path&) { names.insert(name); }));
    return std::vector<std::string>(names.begin(), names.end());
  }

  base::Result<std::vector<ModelListing>> Scan() override {
    std::map<std::string, ModelListing> found;
    if (!options_.single_model_file.empty()) found.emplace(SingleName(), SingleListing());
    STOKER_RETURN_IF_ERROR(EachFolder([&found](const std::string& name, const fs::path& folder) {
      AddListing(name, folder.string(), &found);
    }));
    std::vector<ModelListing> out;
    out.reserve(found.size());
    for (auto& [name, listing] : found) out.push_back(std::move(listing));
    return out;
  }

  base::Result<ModelListing> Look(std::string_view name) override {
    if (!options_.single_model_file.empty() && name == SingleName()) return SingleListing();
    std::map<std::string, ModelListing> found;
    if (IsModelName(name)) {
      for (const auto& repository : options_.repositories) {
        const fs::path folder = fs::path(repository) / name;
        std::error_code ignored;
        if (fs::is_directory(folder, ignored)) AddListing(std::string(name), folder.string(), &found);
      }
    }
    if (found.empty())
      return base::NotFound(StrCat("no model ", base::Quoted(name), " in the model repository"));
    return std::move(found.begin()->second);
  }

  base::Result<ModelDefinition> Read(const ModelListing& listing, const ModelOverrides& overrides) override {
    if (!listing.problem.ok()) return listing.problem;
    ModelDefinition definition;
    definition.folder = listing.folder;
    definition.listing_fingerprint = listing.fingerprint;
    STOKER_ASSIGN_OR_RETURN(auto versions, Versions(listing, overrides, &definition));
    STOKER_ASSIGN_OR_RETURN(ParsedConfig parsed, ParseConfig(listing, overrides));
    STOKER_RETURN_IF_ERROR(CheckName(listing, &parsed));
    std::vector<std::string> warnings;
    STOKER_RETURN_IF_ERROR(CheckSupported(parsed, &warnings));
    const bool counted = parsed.config.instance_group_size() > 0;
    const bool sized = parsed.config.dynamic_batching().preferred_batch_size_size() > 0;
    STOKER_RETURN_IF_ERROR(Complete(listing, versions, &parsed, &warnings));
    STOKER_ASSIGN_OR_RETURN(definition.config, ToValues(parsed));
    definition.config.warnings = std::move(warnings);
    if (!counted) definition.config.instance_count = 0;  // the engine advises
    definition.config.dynamic_batching.sizes_by_default = !sized;
    definition.config.json = ConfigToJson(parsed.config);
    definition.config.message = parsed.config.SerializeAsString();
    STOKER_RETURN_IF_ERROR(ReadLabels(&definition));

    PickVersions(definition.config.version_policy, &versions);
    for (auto& [version, path] : versions)
      definition.versions.push_back({version, path, VersionFingerprint(listing, path)});
    parsed.config.clear_instance_group();
    definition.config_fingerprint = parsed.config.SerializeAsString();
    for (const auto& labels : definition.labels) {
      for (const auto& label : labels) base::StrAppend(&definition.config_fingerprint, label, "\n");
    }
    return definition;
  }

 private:
  /// Calls `visit(name, path)` for each folder of each repository that can be a model.
  template <typename Visit>
  base::Status EachFolder(Visit&& visit) const {
    for (const auto& repository : options_.repositories) {
      std::error_code error;
      fs::directory_iterator it(repository, error);
      if (error) {
        return base::NotFound(StrCat("cannot read the model repository ", base::Quoted(repository), ": ",
                                     error.message(), "; give an existing folder"));
      }
      for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
        std::error_code ignored;
        const std::string name = it->path().filename().string();
        if (it->is_directory(ignored) && IsModelName(name)) visit(name, it->path());
      }
    }
    return base::OkStatus();
  }

  using Folders = std::vector<std::pair<int64_t, std::string>>;

  std::string SingleName() const { return fs::path(options_.single_model_file).stem().string(); }

  ModelListing SingleListing() const {
    const fs::path file = fs::absolute(options_.single_model_file);
    return {SingleName(), file.parent_path().string(), Fingerprint(file.string()), base::OkStatus()};
  }

  bool IsSingle(const ModelListing& listing) const {
    return !options_.single_model_file.empty() && listing.name == SingleName();
  }

  static void AddListing(const std::string& name, const std::string& folder,
                         std::map<std::string, ModelListing>* found) {
    auto [entry, added] = found->try_emplace(name);
    if (added) {
      entry->second = {name, folder, Fingerprint(folder), base::OkStatus()};
    } else {
      entry->second.problem = base::InvalidArgument(
          StrCat("model '", name, "' is in two repositories, ", entry->second.folder, " and ", folder,
                 ": it is not unique across all model repositories; remove one"));
    }
  }

  std::string VersionFingerprint(const ModelListing& listing, const std::string& path) const {
    return IsSingle(listing) ? listing.fingerprint : Fingerprint(path);
  }

  base::Result<Folders> Versions(const ModelListing& listing, const ModelOverrides& overrides,
                                 ModelDefinition* definition) {
    if (overrides.files != nullptr && !overrides.files->empty())
      return OverrideVersions(overrides, definition);
    if (IsSingle(listing)) return Folders{{1, listing.folder}};
    return VersionFolders(listing.folder);
  }

  static base::Result<Folders> OverrideVersions(const ModelOverrides& overrides,
                                                ModelDefinition* definition) {
    if (overrides.config_json == nullptr) {
      return base::InvalidArgument(
          "file parameters need a 'config' parameter too: the model is made of them alone");
    }
    STOKER_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::Make());
    for (const auto& [name, content] : *overrides.files) {
      constexpr std::string_view kPrefix = "file:";
      const std::string_view inner =
          std::string_view(name).substr(name.starts_with(kPrefix) ? kPrefix.size() : 0);
      const base::Status written = folder->Write(inner, content);
      if (!written.ok()) return written.WithContext(StrCat("load parameter ", base::Quoted(name)));
    }
    definition->owner = folder;
    // A model of overrides alone has no other folder: its labels and warm-up data come with them, too.
    if (definition->folder.empty()) definition->folder = folder->path();
    Folders versions = VersionFolders(folder->path());
    if (versions.empty())
      return base::InvalidArgument(
          "file parameters must be named file:<version>/<path>, with a version of 1 or more");
    return versions;
  }

  std::string ConfigPath(const ModelListing& listing) const {
    if (!options_.config_name.empty() && IsModelName(options_.config_name)) {
      const fs::path custom = fs::path(listing.folder) / "configs" / StrCat(options_.config_name, ".pbtxt");
      std::error_code ignored;
      if (fs::exists(custom, ignored)) return custom.string();
    }
    return (fs::path(listing.folder) / "config.pbtxt").string();
  }

  base::Result<ParsedConfig> ParseConfig(const ModelListing& listing, const ModelOverrides& overrides) const {
    if (overrides.config_json != nullptr) return ParseConfigJson(*overrides.config_json);
    if (IsSingle(listing)) {
      ParsedConfig parsed;
      parsed.file = options_.single_model_file;
      parsed.config.set_default_model_filename(fs::path(options_.single_model_file).filename().string());
      return parsed;
    }
    const std::string path = ConfigPath(listing);
    auto text = ReadFile(path, kConfigBytesMax);
    if (text.ok()) return ParseConfigText(path, *text);
    if (text.status().code() != base::StatusCode::kNotFound) return text.status();
    if (options_.disable_auto_complete) {
      return base::NotFound(
          StrCat(path, " is missing, and auto-completion is off (--disable-auto-complete-config)"));
    }
    ParsedConfig empty;
    empty.file = path;
    return empty;
  }

  static base::Status CheckName(const ModelListing& listing, ParsedConfig* parsed) {
    auto& config = parsed->config;
    if (!config.name().empty() && config.name() != listing.name) {
      return base::InvalidArgument(StrCat(parsed->lines.Where(parsed->file, "name"),
                                          ": unexpected directory name '", listing.name, "' for model '",
                                          config.name(), "', directory name must equal model name"));
    }
    config.set_name(listing.name);
    return base::OkStatus();
  }

  base::Status Complete(const ModelListing& listing, const Folders& versions, ParsedConfig* parsed,
                        std::vector<std::string>* warnings) const {
    CompletionContext context;
    context.model = listing.name;
    context.version_path = versions.empty() ? "" : versions.back().second;
    context.default_max_batch_size = DefaultMaxBatchSize(options_);
    context.disabled = options_.disable_auto_complete;
    const auto& filename = parsed->config.default_model_filename();
    if (!filename.empty() && !IsInnerPath(filename)) {
      return base::InvalidArgument(StrCat(parsed->lines.Where(parsed->file, "default_model_filename"), ": ",
                                          base::Quoted(filename),
                                          " must be a relative path inside the version folder"));
    }
    STOKER_ASSIGN_OR_RETURN(engines::Engine * engine, CompleteEngine(context, engines_, &parsed->config));
    STOKER_RETURN_IF_ERROR(CheckParameters(*parsed, engine->parameters(), warnings));
    STOKER_RETURN_IF_ERROR(CompleteTensors(context, engine, *parsed, &parsed->config));
    FillDefaults(&parsed->config);
    return base::OkStatus();
  }

  static base::Status ReadLabels(ModelDefinition* definition) {
    for (const auto& output : definition->config.outputs) {
      auto& labels = definition->labels.emplace_back();
      if (output.label_filename.empty()) continue;
      const auto text =
          ReadFile((fs::path(definition->folder) / output.label_filename).string(), kLabelBytesMax);
      if (!text.ok()) return text.status().WithContext(StrCat("labels of output '", output.name, "'"));
      labels = SplitLines(*text);
    }
    return base::OkStatus();
  }

  const HostOptions options_;
  EngineSet* engines_;
};

}  // namespace

std::unique_ptr<ModelSource> MakeFolderSource(const HostOptions& options, EngineSet* engines) {
  return std::make_unique<FolderSource>(options, engines);
}

}  // namespace stoker::host
