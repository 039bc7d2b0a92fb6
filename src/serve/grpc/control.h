#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <stoker/base/status.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// Called once, on any thread, with the serialised response or the error.
using MessageReply = std::function<void(base::Result<std::string>)>;

/// The methods that change what is served. `reply` comes when the host has done it; they do not block.
void LoadModelByGrpc(const DoorContext& context, const DoorOptions& options, std::string_view request,
                     MessageReply reply);
void UnloadModelByGrpc(const DoorContext& context, std::string_view request, MessageReply reply);

/// LogSettings: applies what the request names, answers with all settings.
base::Result<std::string> AnswerLogSettings(const DoorContext& context, std::string_view request);

}  // namespace stoker::serve
