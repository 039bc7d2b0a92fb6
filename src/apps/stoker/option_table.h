#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <stoker/base/status.h>

#include "serve_options.h"

namespace stoker::apps {

/// One option of `stoker serve`.
struct OptionRow {
  std::string_view name;   // without the dashes
  std::string_view value;  // what stands for its value in the help; empty: it takes none
  std::string_view help;
  OptionClass option_class = OptionClass::kHonoured;
  /// Puts a value into the options. For kRefused: the value under which it is harmless is accepted.
  std::function<base::Status(const std::string& value, ServeOptions* options)> apply;
};

/// All options, in the order of the help.
std::span<const OptionRow> OptionTable();

}  // namespace stoker::apps
