#include "h2_test_client.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>

#include <stoker/base/check.h>

namespace stoker::net::internal {

TestFields GrpcRequestFields(std::string_view path, TestFields more) {
  TestFields fields{{":method", "POST"},       {":scheme", "http"}, {":path", std::string(path)},
                    {":authority", "test"},    {"te", "trailers"},  {"content-type", "application/grpc"},
                    {"user-agent", "test/1.0"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::string GrpcFrame(std::string_view message, int flag) {
  const auto size = static_cast<uint32_t>(message.size());
  std::string frame{static_cast<char>(flag), static_cast<char>(size >> 24), static_cast<char>(size >> 16),
                    static_cast<char>(size >> 8), static_cast<char>(size)};
  return frame.append(message);
}

std::string RawFrame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string frame;
  for (const uint32_t byte : {size >> 16, size >> 8, size, uint32_t{type}, uint32_t{flags}, stream >> 24,
                              stream >> 16, stream >> 8, stream}) {
    frame += static_cast<char>(byte);
  }
  return frame.append(payload);
}

std::string H2TestClient::Answer::Field(std::string_view name) const {
  for (const TestFields* fields : {&trailers, &headers}) {
    for (const auto& [key, value] : *fields) {
      if (key == name) return value;
    }
  }
  return "";
}

std::vector<std::string> H2TestClient::Answer::Messages() const {
  std::vector<std::string> messages;
  std::string_view rest = data;
  while (rest.size() >= 5 && rest[0] == 0) {
    size_t size = 0;
    for (int i = 1; i < 5; ++i) size = size << 8 | static_cast<uint8_t>(rest[static_cast<size_t>(i)]);
    if (size > rest.size() - 5) break;
    messages.emplace_back(rest.substr(5, size));
    rest.remove_prefix(5 + size);
  }
  if (!rest.empty()) messages.emplace_back("(malformed)");
  return messages;
}

struct H2TestClient::Callbacks {
  static H2TestClient& Of(void* user_data) { return *static_cast<H2TestClient*>(user_data); }
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t, void* user_data) {
    Answer& answer = Of(user_data).answers_[frame->hd.stream_id];
    TestFields& fields = frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? answer.headers : answer.trailers;
    fields.emplace_back(std::string(reinterpret_cast<const char*>(name), name_size),
                        std::string(reinterpret_cast<const char*>(value), value_size));
    return 0;
  }
  static int OnData(nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size,
                    void* user_data) {
    Of(user_data).answers_[id].data.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    H2TestClient& self = Of(user_data);
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (carries && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      self.answers_[frame->hd.stream_id].ended = true;
    }
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      self.goaway_ = true;
      self.goaway_error_ = frame->goaway.error_code;
      self.goaway_last_stream_ = frame->goaway.last_stream_id;
    }
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) ++self.pongs_;
    return 0;
  }
  static int OnClose(nghttp2_session*, int32_t id, uint32_t error, void* user_data) {
    Answer& answer = Of(user_data).answers_[id];
    answer.closed = true;
    answer.error = error;
    return 0;
  }
  static ssize_t OnRead(nghttp2_session*, int32_t id, uint8_t* buffer, size_t size, uint32_t* flags,
                        nghttp2_data_source*, void* user_data) {
    Body& body = Of(user_data).bodies_[id];
    const size_t taken = std::min(size, body.data.size());
    std::memcpy(buffer, body.data.data(), taken);
    body.data.erase(0, taken);
    if (body.end && body.data.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return taken == 0 && !body.end ? static_cast<ssize_t>(NGHTTP2_ERR_DEFERRED) : static_cast<ssize_t>(taken);
  }
};

H2TestClient::H2TestClient(uint32_t window, bool auto_window_update) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  CHECK(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::OnData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::OnFrame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::OnClose);
  nghttp2_option_set_no_auto_window_update(option, auto_window_update ? 0 : 1);
  nghttp2_option_set_peer_max_concurrent_streams(option, 100000);
  CHECK(nghttp2_session_client_new2(&session_, callbacks, this, option) == 0);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(option);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
  CHECK(nghttp2_submit_settings(session_, 0, settings, std::size(settings)) == 0);
}

H2TestClient::~H2TestClient() { nghttp2_session_del(session_); }

int32_t H2TestClient::Request(const TestFields& fields, std::string_view body, bool end) {
  std::vector<nghttp2_nv> list;
  for (const auto& [name, value] : fields) {
    list.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                    reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
                    0});
  }
  nghttp2_data_provider provider{};
  provider.read_callback = Callbacks::OnRead;
  const bool has_body = !body.empty() || !end;
  const int32_t id = nghttp2_submit_request(session_, nullptr, list.data(), list.size(),
                                            has_body ? &provider : nullptr, nullptr);
  CHECK(id > 0);
  bodies_[id] = {std::string(body), end};
  return id;
}

void H2TestClient::SendData(int32_t id, std::string_view data, bool end) {
  bodies_[id].data.append(data);
  bodies_[id].end = end;
  nghttp2_session_resume_data(session_, id);
}

void H2TestClient::Reset(int32_t id, uint32_t error) { nghttp2_submit_rst_stream(session_, 0, id, error); }
void H2TestClient::Ping() { nghttp2_submit_ping(session_, 0, nullptr); }
void H2TestClient::WindowUpdate(int32_t id, int32_t bytes) {
  nghttp2_submit_window_update(session_, 0, id, bytes);
}

std::string H2TestClient::TakeOutput() {
  std::string output;
  const uint8_t* data = nullptr;
  ssize_t size = 0;
  while ((size = nghttp2_session_mem_send(session_, &data)) > 0) {
    output.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  }
  return output;
}

bool H2TestClient::Receive(std::string_view data) {
  return nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(data.data()), data.size()) >= 0;
}

}  // namespace stoker::net::internal
