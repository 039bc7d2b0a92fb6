#include "serve_options.h"

#include <filesystem>

#include <stoker/base/str_cat.h>

#include "option_table.h"

namespace stoker::apps {
namespace {

using base::StrCat;

constexpr size_t kHelpColumn = 44;

const OptionRow* FindOption(std::string_view name) {
  for (const auto& row : OptionTable()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

base::Status ApplyOption(const OptionRow& row, const std::string& value, ServeOptions* options) {
  const base::Status status = row.apply(value, options);
  if (!status.ok()) return base::InvalidArgument(StrCat("option --", row.name, " ", status.message()));
  if (row.option_class == OptionClass::kNoEffect) {
    options->warnings.push_back(StrCat("option --", row.name, " has no effect here"));
  }
  return base::OkStatus();
}

/// The short form's argument: a folder of models, or one model file.
base::Status ApplyPositional(const std::string& argument, ServeOptions* options) {
  std::error_code error;
  std::filesystem::path path(argument);
  if (!std::filesystem::exists(path, error)) {
    return base::InvalidArgument(StrCat("there is no file or folder ", base::Quoted(argument), " to serve"));
  }
  // Shells complete the name of a folder with a slash; a model is named after its last part.
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  // A saved model is a folder, but it is one model.
  const bool is_model =
      !std::filesystem::is_directory(path, error) || std::filesystem::exists(path / "saved_model.pb", error);
  if (!is_model) {
    options->host.repositories.push_back(argument);
    return base::OkStatus();
  }
  if (!options->host.single_model_file.empty()) {
    return base::InvalidArgument(StrCat("only one model file can be served by name, got ",
                                        base::Quoted(argument), " too; make a model repository"));
  }
  options->host.single_model_file = path.string();
  return base::OkStatus();
}

base::Status ApplyArguments(const std::vector<std::string>& arguments, ServeOptions* options,
                            bool* short_form) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options->help = true;
      return base::OkStatus();
    }
    if (!argument.starts_with("--")) {
      if (argument.starts_with("-") && argument.size() > 1)
        return base::InvalidArgument(
            StrCat("unknown option ", base::Quoted(argument), "; see stoker serve --help"));
      *short_form = true;
      STOKER_RETURN_IF_ERROR(ApplyPositional(argument, options));
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const OptionRow* row = FindOption(name);
    if (row == nullptr)
      return base::InvalidArgument(StrCat("unknown option --", name, "; see stoker serve --help"));
    std::string value;
    if (equals != std::string::npos) {
      if (row->value.empty()) return base::InvalidArgument(StrCat("option --", name, " takes no value"));
      value = argument.substr(equals + 1);
    } else if (!row->value.empty()) {
      if (i + 1 == arguments.size())
        return base::InvalidArgument(StrCat("option --", name, " wants a value: ", row->value));
      value = arguments[++i];
    }
    STOKER_RETURN_IF_ERROR(ApplyOption(*row, value, options));
  }
  return base::OkStatus();
}

ServeOptions Defaults() {
  ServeOptions options;
  options.host.cores = 0;  // 0: as granted
  options.http.address.clear();
  options.grpc.address.clear();
  options.metrics.address.clear();
  options.http.name = "http";
  options.metrics.name = "metrics";
  options.metrics.port = 8002;
  options.metrics.port_option = "--metrics-port";
  options.metrics.body_bytes_max = 64 << 10;
  return options;
}

void AppendClass(OptionClass option_class, std::string* out) {
  for (const auto& row : OptionTable()) {
    if (row.option_class != option_class) continue;
    std::string left = StrCat("  --", row.name, row.value.empty() ? "" : " ", row.value);
    if (row.help.empty()) {
      base::StrAppend(out, left, "\n");
      continue;
    }
    if (left.size() < kHelpColumn) left.resize(kHelpColumn, ' ');
    base::StrAppend(out, left, " ", row.help, "\n");
  }
}

}  // namespace

base::Result<ServeOptions> ParseServeOptions(const std::vector<std::string>& arguments) {
  ServeOptions options = Defaults();
  bool short_form = false;
  STOKER_RETURN_IF_ERROR(ApplyArguments(arguments, &options, &short_form));
  if (options.help) return options;
  if (options.host.repositories.empty() && options.host.single_model_file.empty()) {
    return base::InvalidArgument(
        "nothing to serve: give a model repository or a model file, as in stoker serve ./models");
  }
  const std::string address = short_form ? "127.0.0.1" : "0.0.0.0";
  if (options.http.address.empty()) options.http.address = address;
  if (options.grpc.address.empty()) options.grpc.address = address;
  if (options.metrics.address.empty()) options.metrics.address = options.http.address;
  if (!options.host.startup_models.empty() && options.host.control_mode != host::ControlMode::kExplicit) {
    return base::InvalidArgument("option --load-model needs --model-control-mode=explicit");
  }
  return options;
}

std::string ServeHelp() {
  std::string out =
      "stoker serve: serves models over HTTP and gRPC (KServe v2 with Triton's extensions)\n"
      "\n"
      "  stoker serve ./models                    every model of a repository, on 127.0.0.1\n"
      "  stoker serve model.onnx                  one model file, no configuration\n"
      "  stoker serve --model-repository=./models --http-port=9000 --model-control-mode=explicit\n"
      "\n"
      "Options (as Triton's; --name VALUE or --name=VALUE):\n";
  AppendClass(OptionClass::kHonoured, &out);
  out += "\nWithout effect here (accepted with a warning):\n";
  AppendClass(OptionClass::kNoEffect, &out);
  out += "\nNot supported yet (refused unless they ask for nothing, such as --grpc-use-ssl=false):\n";
  AppendClass(OptionClass::kRefused, &out);
  out +=
      "\nSIGTERM or SIGINT: answers what is running, then ends with 0; a second one ends at once.\n"
      "Exit codes: 0 ended as asked, 1 could not start or failed, 2 wrong arguments.\n";
  return out;
}

}  // namespace stoker::apps
