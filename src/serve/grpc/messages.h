#pragma once

#include <limits>
#include <string>
#include <string_view>

#include <stoker/base/status.h>

#include "grpc/infer_reader.h"

namespace stoker::serve {

/// A protobuf message of ours from its bytes; kInternal when they are none.
template <typename Message>
base::Result<Message> ParseMessage(std::string_view bytes) {
  Message message;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return MalformedMessage();
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
