#include <stoker/net/http_message.h>

#include "http_parser.h"

namespace stoker::net {

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (!internal::EqualsIgnoreCase(header.name, name)) continue;
    return header.value.data() != nullptr ? header.value : std::string_view("");
  }
  return {};
}

}  // namespace stoker::net
