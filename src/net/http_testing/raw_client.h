#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace stoker::net::testing {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;
  std::string raw_body;  // with its chunks
};

/// A blocking client over a raw socket, for tests that decide about every byte. Reads give up after
/// 30 s, so that a fault fails a test instead of hanging it.
class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    const timeval limit{.tv_sec = 30, .tv_usec = 0};
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  /// False when the peer has closed.
  bool Send(std::string_view data) {
    while (!data.empty()) {
      const ssize_t sent = send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void HalfClose() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void Reset() {
    const linger reset{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    Close();
  }

  /// The next answer (interim ones are answers too); nothing when the connection ends first.
  std::optional<Answer> Read(bool to_head = false) {
    size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill()) return std::nullopt;
    }
    Answer answer = ParseHead(buffer_.substr(0, end + 2));
    buffer_.erase(0, end + 4);
    if (to_head || answer.status == 100 || answer.status == 204) return answer;
    if (answer.headers.count("transfer-encoding") > 0)
      return ReadChunks(&answer) ? std::optional(answer) : std::nullopt;
    if (answer.headers.count("content-length") == 0) {
      answer.body = ReadToEnd();
      return answer;
    }
    const size_t length = std::stoul(answer.headers["content-length"]);
    while (buffer_.size() < length) {
      if (!Fill()) return std::nullopt;
    }
    answer.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return answer;
  }
  std::optional<Answer> Ask(std::string_view request) { return Send(request) ? Read() : std::nullopt; }

  /// Everything up to the end of the stream.
  std::string ReadToEnd() {
    while (Fill()) continue;
    return std::exchange(buffer_, {});
  }
  /// Whether the server closed, with nothing further sent.
  bool AtEnd() { return buffer_.empty() && !Fill() && ended_; }
  bool ended() const { return ended_; }  // by the peer, not by a timeout

 private:
  bool Fill() {
    char data[65536];
    const ssize_t got = recv(fd_, data, sizeof(data), 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) ended_ = true;
    if (got <= 0) return false;
    buffer_.append(data, static_cast<size_t>(got));
    return true;
  }

  static Answer ParseHead(std::string_view head) {
    Answer answer;
    answer.status = std::stoi(std::string(head.substr(9, 3)));
    head.remove_prefix(head.find("\r\n") + 2);
    while (!head.empty()) {
      const std::string_view line = head.substr(0, head.find("\r\n"));
      head.remove_prefix(line.size() + 2);
      std::string name(line.substr(0, line.find(": ")));
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      answer.headers[name] = std::string(line.substr(line.find(": ") + 2));
    }
    return answer;
  }

  bool ReadChunks(Answer* answer) {
    for (;;) {
      size_t end = 0;
      while ((end = buffer_.find("\r\n")) == std::string::npos) {
        if (!Fill()) return false;
      }
      const size_t size = std::stoul(buffer_.substr(0, end), nullptr, 16);
      while (buffer_.size() < end + 2 + size + 2) {
        if (!Fill()) return false;
      }
      answer->body += buffer_.substr(end + 2, size);
      answer->raw_body += buffer_.substr(0, end + 2 + size + 2);
      buffer_.erase(0, end + 2 + size + 2);
      if (size == 0) return true;
    }
  }

  int fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

}  // namespace stoker::net::testing
