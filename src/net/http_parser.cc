#include "http_parser.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <stoker/base/str_cat.h>

namespace stoker::net::internal {
namespace {

using base::Quoted;
using base::StrCat;

constexpr size_t kMethodBytesMax = 32;
constexpr size_t kChunkOverheadMax = 16 << 10;
constexpr unsigned kChunkDigitsMax = 16;

// RFC 9110: token characters.
constexpr std::array<bool, 256> kToken = [] {
  std::array<bool, 256> table{};
  for (unsigned c = '0'; c <= '9'; ++c) table[c] = true;
  for (unsigned c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = true;
  for (const unsigned char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
    table[c] = true;
  return table;
}();

// Characters of a field value: visible ones, space, tab and bytes above ASCII.
constexpr std::array<bool, 256> kValue = [] {
  std::array<bool, 256> table{};
  for (unsigned c = 0x20; c < 256; ++c) table[c] = c != 0x7f;
  table['\t'] = true;
  return table;
}();

bool IsToken(char c) { return kToken[static_cast<unsigned char>(c)]; }
bool IsValue(char c) { return kValue[static_cast<unsigned char>(c)]; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

HttpFault Bad(std::string message) { return {400, std::move(message)}; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

HttpMethod MethodOf(std::string_view name) {
  static constexpr std::pair<std::string_view, HttpMethod> kMethods[] = {
      {"POST", HttpMethod::kPost},  {"GET", HttpMethod::kGet},       {"HEAD", HttpMethod::kHead},
      {"PUT", HttpMethod::kPut},    {"DELETE", HttpMethod::kDelete}, {"OPTIONS", HttpMethod::kOptions},
      {"PATCH", HttpMethod::kPatch}};
  for (const auto& [text, method] : kMethods) {
    if (name == text) return method;
  }
  return HttpMethod::kOther;
}

// Splits the target; an absolute one ("http://host/path") loses scheme and authority.
void SplitTarget(HttpHead* head) {
  std::string_view rest = head->target;
  if (rest.front() != '/' && rest.size() > 7) {
    const size_t scheme = rest.find("://");
    if (scheme != std::string_view::npos && scheme <= 5) {
      const size_t end = rest.find_first_of("/?", scheme + 3);
      rest = end == std::string_view::npos ? std::string_view("/") : rest.substr(end);
    }
  }
  const size_t question = rest.find('?');
  head->path = rest.substr(0, question);
  head->query = question == std::string_view::npos ? std::string_view() : rest.substr(question + 1);
}

HttpFault ParseVersion(std::string_view text, HttpHead* head) {
  if (text.size() != 8 || text.substr(0, 5) != "HTTP/" || !IsDigit(text[5]) || text[6] != '.' ||
      !IsDigit(text[7])) {
    return Bad(StrCat("malformed request line: ", Quoted(text), " where HTTP/1.1 or HTTP/1.0 is expected"));
  }
  if (text[5] != '1') {
    return {505, StrCat("HTTP version ", text.substr(5), " is not spoken on this port; use HTTP/1.1")};
  }
  head->minor_version = text[7] == '0' ? 0 : 1;
  return {};
}

HttpFault ParseRequestLine(std::string_view line, HttpHead* head) {
  const size_t method_end = line.find(' ');
  const size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end == method_end) {
    return Bad(StrCat("malformed request line ", Quoted(line), ": wanted METHOD TARGET HTTP/1.1"));
  }
  const std::string_view method = line.substr(0, method_end);
  if (method.empty() || !std::all_of(method.begin(), method.end(), IsToken)) {
    return Bad(StrCat("malformed method ", Quoted(method), " in the request line"));
  }
  if (method.size() > kMethodBytesMax) return {501, StrCat("unknown method ", Quoted(method))};
  head->method = MethodOf(method);
  head->target = line.substr(method_end + 1, target_end - method_end - 1);
  const bool visible = std::all_of(head->target.begin(), head->target.end(),
                                   [](char c) { return c != ' ' && IsValue(c) && c != '\t'; });
  if (head->target.empty() || !visible) {
    return Bad(StrCat("malformed request target ", Quoted(head->target),
                      ": spaces and control characters must be percent-encoded"));
  }
  HttpFault fault = ParseVersion(line.substr(target_end + 1), head);
  if (!fault) SplitTarget(head);
  return fault;
}

HttpFault ParseLength(std::string_view value, HttpHead* head) {
  if (value.empty() || value.size() > 19 || !std::all_of(value.begin(), value.end(), IsDigit)) {
    return Bad(StrCat("malformed Content-Length ", Quoted(value), ": wanted one decimal number of bytes"));
  }
  uint64_t length = 0;
  for (const char c : value) length = length * 10 + static_cast<uint64_t>(c - '0');
  if (head->has_length && head->length != length) {
    return Bad(StrCat("two Content-Length headers that differ: ", head->length, " and ", length));
  }
  head->length = length;
  head->has_length = true;
  return {};
}

HttpFault ParseTransferEncoding(std::string_view value, HttpHead* head) {
  if (EqualsIgnoreCase(value, "chunked") && !head->chunked) {
    head->chunked = true;
    return {};
  }
  std::string lower(value);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  const bool confusing = head->chunked || lower.empty() || lower.find("chunked") != std::string::npos ||
                         lower.find("identity") != std::string::npos;
  return {confusing ? 400 : 501,
          StrCat("Transfer-Encoding ", Quoted(value), " is not supported: chunked alone is, once")};
}

void ParseConnection(std::string_view value, bool* close, bool* keep_alive) {
  while (!value.empty()) {
    const size_t comma = value.find(',');
    const std::string_view option = Trim(value.substr(0, comma));
    if (EqualsIgnoreCase(option, "close")) *close = true;
    if (EqualsIgnoreCase(option, "keep-alive")) *keep_alive = true;
    value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
  }
}

// What the header fields seen so far say about the connection.
struct Flags {
  bool close = false;
  bool keep_alive = false;
  bool host = false;
};

// Acts on the fields that steer the parsing; the length of the name picks the candidates cheaply.
HttpFault Interpret(const HttpHeader& header, HttpHead* head, Flags* flags) {
  const auto is = [&](std::string_view name) { return EqualsIgnoreCase(header.name, name); };
  switch (header.name.size()) {
    case 4:
      if (is("host") && std::exchange(flags->host, true)) return Bad("more than one Host header");
      break;
    case 6:
      if (!is("expect")) break;
      if (!EqualsIgnoreCase(header.value, "100-continue")) {
        return {417,
                StrCat("expectation ", Quoted(header.value), " cannot be met: only 100-continue is known")};
      }
      head->expect_continue = true;
      break;
    case 10:
      if (is("connection")) ParseConnection(header.value, &flags->close, &flags->keep_alive);
      break;
    case 14:
      if (is("content-length")) return ParseLength(header.value, head);
      break;
    case 17:
      if (is("transfer-encoding")) return ParseTransferEncoding(header.value, head);
      break;
    default:
      break;
  }
  return {};
}

HttpFault ParseField(std::string_view line, HttpHeader* header) {
  if (line.front() == ' ' || line.front() == '\t') {
    return Bad("header lines folded over several lines are not accepted");
  }
  size_t colon = 0;
  while (colon < line.size() && IsToken(line[colon])) ++colon;
  if (colon == 0 || colon == line.size() || line[colon] != ':') {
    return Bad(StrCat("malformed header line ", Quoted(line),
                      ": wanted NAME: VALUE, without a space before the colon"));
  }
  header->name = line.substr(0, colon);
  header->value = Trim(line.substr(colon + 1));
  if (!std::all_of(header->value.begin(), header->value.end(), IsValue)) {
    return Bad(StrCat("control character in the value of header ", Quoted(header->name)));
  }
  return {};
}

// What can only be judged once all fields are known.
HttpFault JudgeBody(const HttpLimits& limits, const Flags& flags, HttpHead* head) {
  if (head->chunked && head->has_length) {
    return Bad("both Content-Length and Transfer-Encoding are given; send only one of them");
  }
  if (head->chunked && head->minor_version == 0) return Bad("Transfer-Encoding is not part of HTTP/1.0");
  if (head->length > limits.body_bytes_max) {
    return {413, StrCat("request body of ", head->length, " bytes exceeds the limit of ",
                        limits.body_bytes_max, " bytes")};
  }
  head->keep_alive = !flags.close && (head->minor_version > 0 || flags.keep_alive);
  if (head->minor_version == 0) head->expect_continue = false;
  return {};
}

}  // namespace

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return Lower(x) == Lower(y); });
}

HeadScanner::Outcome HeadScanner::Scan(std::string_view data, const HttpLimits& limits, HttpFault* fault) {
  const size_t limit = std::min(data.size(), limits.header_bytes_max);
  while (position_ < limit) {
    const char first = data[line_start_];
    if (line_start_ == request_start_ && !IsToken(first) && first != '\r' && first != '\n') {
      *fault =
          Bad("the bytes received are not an HTTP request; is the client speaking TLS or another protocol?");
      return Outcome::kFault;
    }
    const void* found = std::memchr(data.data() + position_, '\n', limit - position_);
    if (found == nullptr) {
      position_ = limit;
      break;
    }
    const size_t feed = static_cast<size_t>(static_cast<const char*>(found) - data.data());
    if (feed == line_start_ || data[feed - 1] != '\r') {
      *fault = Bad("a line of the header ends in a bare line feed; wanted CR LF");
      return Outcome::kFault;
    }
    position_ = feed + 1;
    const bool empty = feed == line_start_ + 1;
    if (empty && line_start_ != request_start_) return Outcome::kComplete;
    line_start_ = position_;
    if (empty) request_start_ = position_;
  }
  if (limit < limits.header_bytes_max) return Outcome::kMore;
  const bool in_request_line = line_start_ == request_start_;
  *fault = {in_request_line ? 414 : 431, StrCat(in_request_line ? "request line" : "request header",
                                                " exceeds the limit of ", limits.header_bytes_max, " bytes")};
  return Outcome::kFault;
}

void HttpHead::Rebase(const char* from, const char* to) {
  const auto move = [from, to](std::string_view* view) {
    *view = {to + (view->data() - from), view->size()};
  };
  // A path of static text ("/" for a bare authority) stays where it is.
  const bool inside = path.data() >= target.data() && path.data() <= target.data() + target.size();
  if (inside) move(&path);
  if (query.data() != nullptr) move(&query);
  move(&target);
  for (HttpHeader& header : headers) {
    move(&header.name);
    move(&header.value);
  }
}

HttpFault ParseHead(std::string_view block, const HttpLimits& limits, HttpHead* head) {
  Flags flags;
  size_t start = 0;
  for (bool first = true; start < block.size(); first = false) {
    const size_t feed = block.find('\n', start);
    const std::string_view line = block.substr(start, feed - 1 - start);
    start = feed + 1;
    if (line.empty()) break;
    if (first) {
      if (HttpFault fault = ParseRequestLine(line, head)) return fault;
      continue;
    }
    if (head->headers.size() == limits.header_count_max) {
      return {431, StrCat("more than ", limits.header_count_max, " header fields")};
    }
    HttpHeader header;
    if (HttpFault fault = ParseField(line, &header)) return fault;
    if (HttpFault fault = Interpret(header, head, &flags)) return fault;
    head->headers.push_back(header);
  }
  return JudgeBody(limits, flags, head);
}

ChunkDecoder::State ChunkDecoder::Fail(int status, std::string message) {
  fault_ = {status, std::move(message)};
  return State::kFault;
}

ChunkDecoder::State ChunkDecoder::BeginChunk(const HttpLimits& limits) {
  digits_ = 0;
  if (chunk_ == 0) return State::kTrailerStart;
  if (++chunks_ > limits.chunk_count_max) {
    return Fail(400,
                StrCat("chunked body has more than ", limits.chunk_count_max, " chunks; send larger ones"));
  }
  if (chunk_ > limits.body_bytes_max - total_) {
    return Fail(413, StrCat("chunked request body exceeds the limit of ", limits.body_bytes_max, " bytes"));
  }
  total_ += chunk_;
  return State::kData;
}

ChunkDecoder::State ChunkDecoder::StepSize(unsigned char byte) {
  int digit = -1;
  if (byte >= '0' && byte <= '9') digit = byte - '0';
  const unsigned char lower = byte | 0x20;
  if (lower >= 'a' && lower <= 'f') digit = lower - 'a' + 10;
  if (digit >= 0) {
    if (digits_ == kChunkDigitsMax) return Fail(400, "chunk size has more than 16 hexadecimal digits");
    chunk_ = digits_++ == 0 ? static_cast<uint64_t>(digit) : (chunk_ << 4) | static_cast<uint64_t>(digit);
    return State::kSize;
  }
  if (state_ == State::kSize && byte == '\r') return State::kSizeLineFeed;
  if (state_ == State::kSize && byte == ';') return State::kExtension;
  return Fail(400, "malformed chunk size: wanted hexadecimal digits and CR LF");
}

ChunkDecoder::State ChunkDecoder::StepTrailer(unsigned char byte) {
  if (++overhead_ > kChunkOverheadMax)
    return Fail(431, StrCat("trailers and chunk extensions exceed ", kChunkOverheadMax, " bytes"));
  const bool in_value = state_ == State::kTrailerValue || state_ == State::kExtension;
  if (in_value && kValue[byte]) return state_;
  if (in_value && byte == '\r')
    return state_ == State::kExtension ? State::kSizeLineFeed : State::kTrailerLineFeed;
  if (state_ == State::kTrailerStart && byte == '\r') return State::kEndLineFeed;
  if (!in_value && kToken[byte]) return State::kTrailerName;
  if (state_ == State::kTrailerName && byte == ':') return State::kTrailerValue;
  return Fail(400, "malformed trailer or chunk extension");
}

ChunkDecoder::State ChunkDecoder::Step(unsigned char byte, const HttpLimits& limits) {
  switch (state_) {
    case State::kSizeStart:
    case State::kSize:
      return StepSize(byte);
    case State::kExtension:
    case State::kTrailerStart:
    case State::kTrailerName:
    case State::kTrailerValue:
      return StepTrailer(byte);
    case State::kSizeLineFeed:
      return byte == '\n' ? BeginChunk(limits) : Fail(400, "chunk size must end in CR LF");
    case State::kDataReturn:
      return byte == '\r' ? State::kDataLineFeed : Fail(400, "chunk is longer than its size says");
    case State::kDataLineFeed:
      return byte == '\n' ? State::kSizeStart : Fail(400, "chunk must end in CR LF");
    case State::kTrailerLineFeed:
      return byte == '\n' ? State::kTrailerStart : Fail(400, "trailer must end in CR LF");
    case State::kEndLineFeed:
      return byte == '\n' ? State::kDone : Fail(400, "chunked body must end in CR LF");
    case State::kData:
    case State::kDone:
    case State::kFault:
      break;
  }
  return state_;
}

std::string_view ChunkDecoder::Next(std::string_view* input, const HttpLimits& limits) {
  while (!input->empty() && state_ != State::kDone && state_ != State::kFault) {
    if (state_ == State::kData) {
      const std::string_view run = input->substr(0, chunk_);
      input->remove_prefix(run.size());
      chunk_ -= run.size();
      if (chunk_ == 0) state_ = State::kDataReturn;
      return run;
    }
    state_ = Step(static_cast<unsigned char>(input->front()), limits);
    input->remove_prefix(1);
  }
  return {};
}

}  // namespace stoker::net::internal
