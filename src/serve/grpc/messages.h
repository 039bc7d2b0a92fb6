#pragma once

#include <string>
#include <string_view>

#include <stoker/base/status.h>
#include <stoker/base/str_cat.h>

#include "grpc/infer_reader.h"

namespace stoker::serve {

/// Of the messages of calls that say little: parsed, protobuf takes many times the memory.
inline constexpr size_t kSmallMessageBytesMax = 1 << 20;

/// A protobuf message of ours from its bytes; kInternal when they are none.
template <typename Message>
base::Result<Message> ParseMessage(std::string_view bytes, size_t bytes_max = kSmallMessageBytesMax) {
  Message message;
  if (bytes.size() > bytes_max) {
    return base::ResourceExhausted(
        base::StrCat("the message has ", bytes.size(), " bytes, this call takes at most ", bytes_max));
  }
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return MalformedMessage();
  return message;
}

template <typename Message>
base::Result<std::string> SerialiseMessage(const Message& message) {
  std::string bytes;
  if (!message.SerializeToString(&bytes)) return base::Internal("the answer is no valid protobuf message");
  return bytes;
}

}  // namespace stoker::serve
