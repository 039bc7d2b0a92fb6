#include "http_output.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <utility>

#include <stoker/base/clock.h>
#include <stoker/base/json.h>
#include <stoker/base/str_cat.h>

namespace stoker::net::internal {
namespace {

constexpr size_t kPiecesPerWrite = 64;
constexpr size_t kIdleCapacityMax = 4 << 10;  // a buffer beyond this is freed once it is written

void AppendNumber(size_t number, int base, std::string* out) {
  char digits[20];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), number, base);
  static_cast<void>(error);
  out->append(digits, static_cast<size_t>(end - digits));
}

std::string_view Reason(int status) {
  static constexpr std::pair<int, std::string_view> kReasons[] = {{100, "Continue"},
                                                                  {200, "OK"},
                                                                  {201, "Created"},
                                                                  {202, "Accepted"},
                                                                  {204, "No Content"},
                                                                  {206, "Partial Content"},
                                                                  {301, "Moved Permanently"},
                                                                  {302, "Found"},
                                                                  {304, "Not Modified"},
                                                                  {400, "Bad Request"},
                                                                  {401, "Unauthorized"},
                                                                  {403, "Forbidden"},
                                                                  {404, "Not Found"},
                                                                  {405, "Method Not Allowed"},
                                                                  {406, "Not Acceptable"},
                                                                  {408, "Request Timeout"},
                                                                  {409, "Conflict"},
                                                                  {411, "Length Required"},
                                                                  {412, "Precondition Failed"},
                                                                  {413, "Content Too Large"},
                                                                  {414, "URI Too Long"},
                                                                  {415, "Unsupported Media Type"},
                                                                  {416, "Range Not Satisfiable"},
                                                                  {417, "Expectation Failed"},
                                                                  {422, "Unprocessable Content"},
                                                                  {429, "Too Many Requests"},
                                                                  {431, "Request Header Fields Too Large"},
                                                                  {499, "Client Closed Request"},
                                                                  {500, "Internal Server Error"},
                                                                  {501, "Not Implemented"},
                                                                  {502, "Bad Gateway"},
                                                                  {503, "Service Unavailable"},
                                                                  {504, "Gateway Timeout"},
                                                                  {505, "HTTP Version Not Supported"}};
  for (const auto& [code, text] : kReasons) {
    if (code == status) return text;
  }
  return "Unknown";
}

// Appends outside text as part of a header; what could end the line becomes a space.
void AppendFieldText(std::string_view text, std::string* out) {
  const size_t start = out->size();
  out->append(text);
  std::replace_if(
      out->begin() + static_cast<ptrdiff_t>(start), out->end(),
      [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
}

void AppendStatusLine(int status, std::string* out) {
  if (status == 200) {
    out->append("HTTP/1.1 200 OK\r\n");
    return;
  }
  out->append("HTTP/1.1 ");
  AppendNumber(static_cast<size_t>(std::clamp(status, 100, 599)), 10, out);
  out->push_back(' ');
  out->append(Reason(status));
  out->append("\r\n");
}

void AppendLengthAndConnection(size_t body_bytes, bool has_body, const ResponseFrame& frame,
                               std::string* out) {
  if (has_body && !frame.stream) {
    out->append("Content-Length: ");
    AppendNumber(body_bytes, 10, out);
    out->append("\r\n");
  } else if (has_body && !frame.http10) {
    out->append("Transfer-Encoding: chunked\r\n");
  }
  if (frame.close) {
    out->append("Connection: close\r\n");
  } else if (frame.http10) {
    out->append("Connection: keep-alive\r\n");
  }
}

}  // namespace

bool HasNoBody(int status) { return status < 200 || status == 204 || status == 304; }

void HttpOutput::Append(const base::Bytes& bytes) {
  if (bytes.empty()) return;
  if (bytes.size() <= kGatherBytesMax) {
    tail_.append(bytes.text());
    return;
  }
  if (!tail_.empty()) {
    pieces_bytes_ += tail_.size();
    pieces_.push_back(base::Bytes::Own(std::move(tail_)));
    tail_.clear();
  }
  pieces_bytes_ += bytes.size();
  pieces_.push_back(bytes);
}

HttpOutput::Outcome HttpOutput::FlushTail(int fd, size_t* written) {
  const ssize_t sent = send(fd, tail_.data() + front_offset_, tail_.size() - front_offset_, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR ? Outcome::kBlocked : Outcome::kFailed;
  *written += static_cast<size_t>(sent);
  front_offset_ += static_cast<size_t>(sent);
  if (front_offset_ < tail_.size()) {
    // What a slow reader has taken must not pile up in front of what is appended meanwhile.
    if (front_offset_ > tail_.size() / 2) {
      tail_.erase(0, front_offset_);
      front_offset_ = 0;
    }
    return Outcome::kBlocked;
  }
  front_offset_ = 0;
  tail_.clear();
  if (tail_.capacity() > kIdleCapacityMax) tail_.shrink_to_fit();
  return Outcome::kDone;
}

void HttpOutput::Drop(size_t bytes) {
  front_offset_ += bytes;
  while (!pieces_.empty() && front_offset_ >= pieces_.front().size()) {
    front_offset_ -= pieces_.front().size();
    pieces_bytes_ -= pieces_.front().size();
    pieces_.pop_front();
  }
}

HttpOutput::Outcome HttpOutput::Flush(int fd, size_t* written) {
  *written = 0;
  while (!pieces_.empty()) {
    iovec parts[kPiecesPerWrite];
    size_t count = 0;
    for (; count < std::min(pieces_.size(), kPiecesPerWrite - 1); ++count) {
      const size_t skip = count == 0 ? front_offset_ : 0;
      const auto bytes = pieces_[count].span().subspan(skip);
      parts[count] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    }
    if (count == pieces_.size() && !tail_.empty()) parts[count++] = {tail_.data(), tail_.size()};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR ? Outcome::kBlocked : Outcome::kFailed;
    *written += static_cast<size_t>(sent);
    Drop(static_cast<size_t>(sent));
  }
  if (tail_.size() == front_offset_) {
    tail_.clear();
    front_offset_ = 0;
    return Outcome::kDone;
  }
  return FlushTail(fd, written);
}

std::string_view DateHeader::Line(int64_t now_ns) {
  if (now_ns < valid_until_ns_) return line_;
  const int64_t wall_ns = base::Clock::Real().WallNs();
  valid_until_ns_ = now_ns + base::kNsPerSecond - wall_ns % base::kNsPerSecond;
  const time_t seconds = wall_ns / base::kNsPerSecond;
  tm parts{};
  gmtime_r(&seconds, &parts);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto two = [](int number) { return base::StrCat(number < 10 ? "0" : "", number); };
  line_ = base::StrCat("Date: ", kDays[parts.tm_wday], ", ", two(parts.tm_mday), " ", kMonths[parts.tm_mon],
                       " ", parts.tm_year + 1900, " ", two(parts.tm_hour), ":", two(parts.tm_min), ":",
                       two(parts.tm_sec), " GMT\r\n");
  return line_;
}

void AppendResponse(const HttpResponse& response, const ResponseFrame& frame, std::string_view date_line,
                    HttpOutput* output) {
  size_t body_bytes = 0;
  for (const base::Bytes& part : response.body) body_bytes += part.size();
  const bool has_body = !HasNoBody(response.status);
  std::string& out = output->tail();
  AppendStatusLine(response.status, &out);
  out.append(date_line);
  if (!response.content_type.empty()) {
    out.append("Content-Type: ");
    AppendFieldText(response.content_type, &out);
    out.append("\r\n");
  }
  for (const auto& [name, value] : response.headers) {
    AppendFieldText(name, &out);
    out.append(": ");
    AppendFieldText(value, &out);
    out.append("\r\n");
  }
  AppendLengthAndConnection(body_bytes, has_body, frame, &out);
  out.append("\r\n");
  if (!has_body || frame.head_only) return;
  for (const base::Bytes& part : response.body) {
    if (frame.stream) {
      AppendStreamPart(part, frame, output);
    } else {
      output->Append(part);
    }
  }
}

void AppendStreamPart(const base::Bytes& part, const ResponseFrame& frame, HttpOutput* output) {
  if (part.empty() || frame.head_only) return;
  if (frame.http10) {
    output->Append(part);
    return;
  }
  AppendNumber(part.size(), 16, &output->tail());
  output->tail().append("\r\n");
  output->Append(part);
  output->tail().append("\r\n");
}

void AppendStreamEnd(const ResponseFrame& frame, HttpOutput* output) {
  if (!frame.head_only && !frame.http10) output->tail().append("0\r\n\r\n");
}

HttpResponse ErrorResponse(int status, std::string_view message) {
  std::string body = "{\"error\":";
  base::AppendJsonString(&body, message);
  body.push_back('}');
  HttpResponse response;
  response.status = status;
  response.content_type = "application/json";
  response.body.push_back(base::Bytes::Own(std::move(body)));
  return response;
}

}  // namespace stoker::net::internal
