#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stoker/base/bytes.h>

namespace stoker::net {

enum class HttpMethod : uint8_t { kGet, kHead, kPost, kPut, kDelete, kOptions, kPatch, kOther };

struct HttpHeader {
  std::string_view name;   // as sent; compare without regard to case
  std::string_view value;  // trimmed
};

/// A complete request: header and (dechunked, still content-encoded) body in one or two runs of
/// memory that `owner` keeps alive, so views survive a move and a hop to another thread.
struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  std::string_view target;  // raw, undecoded: "/v2/models/a/infer?x=1"
  std::string_view path;    // target up to '?'
  std::string_view query;   // after '?', may be empty
  int minor_version = 1;    // HTTP/1.x
  std::vector<HttpHeader> headers;
  bool has_length = false;  // Content-Length or chunked was given
  base::Bytes body;         // contiguous; 64-byte aligned start when it has its own memory
  std::shared_ptr<const void> owner;
  int64_t received_ns = 0;  // monotonic: when its first byte was read
  std::string_view peer;    // "127.0.0.1:4711"; lives as long as the connection's requests

  /// The first header of that name (any case), or an empty view with null data when absent.
  std::string_view Header(std::string_view name) const;
  bool HasHeader(std::string_view name) const { return Header(name).data() != nullptr; }
};

/// What goes back. Content-Length, Connection, Date and the status line are added by the server.
struct HttpResponse {
  int status = 200;
  std::string_view content_type = {};                             // static text; empty: no header
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
  std::vector<base::Bytes> body = {};  // written with writev, not copied when large
};

}  // namespace stoker::net
