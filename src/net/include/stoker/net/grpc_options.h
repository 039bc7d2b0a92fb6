#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stoker::net {

struct GrpcServerOptions {
  std::string name = "grpc";
  std::string address = "127.0.0.1";
  uint16_t port = 8001;  // 0: any free one
  std::string port_option = "--grpc-port";
  bool reuse_port = false;
  size_t message_bytes_max = 2147483647;   // of one message, before and after decompression
  size_t unpacked_bytes_max = 64 << 20;    // of one compressed message: it is unpacked on the I/O thread
  size_t buffered_bytes_max = 2ull << 30;  // of incomplete messages of all connections together, and of
                                           // complete ones (beyond 4 KiB each) that somebody still holds
  size_t header_bytes_max = 64 << 10;      // of one header list
  size_t connections_max = 16384;
  uint32_t streams_max = 1024;  // concurrent, per connection
  uint32_t stream_window_bytes = 1 << 20;
  uint32_t connection_window_bytes = 16 << 20;
  size_t write_backlog_bytes_max = 64 << 20;      // per call
  uint32_t resets_per_second_max = 200;           // RST_STREAM flood (rapid reset) limit per connection
  uint32_t control_frames_per_second_max = 1000;  // PING, SETTINGS, PRIORITY flood limit per connection
  bool gzip_responses = false;
  int64_t keepalive_time_ns = 7'200'000'000'000;  // PING after that much silence
  int64_t keepalive_timeout_ns = 20'000'000'000;  // close when it is not answered
  int64_t handshake_timeout_ns = 20'000'000'000;  // preface and SETTINGS
  int64_t idle_timeout_ns = 0;                    // connection without calls; 0: never
  int64_t read_timeout_ns = 60'000'000'000;       // within a message, without any progress
  int64_t write_timeout_ns = 60'000'000'000;      // answers wait, without any progress
};

}  // namespace stoker::net
