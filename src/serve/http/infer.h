#pragma once

#include <stoker/net/http_message.h>
#include <stoker/net/http_server.h>
#include <stoker/serve/door.h>

#include "http/routes.h"

namespace stoker::serve {

/// POST …/infer: reads the request, submits it and answers when the host does. Small plain bodies are
/// read on the calling thread, large or compressed ones on the executor.
void HandleInfer(const DoorContext& context, const DoorOptions& options, const HttpRouteMatch& match,
                 net::HttpRequest request, net::HttpResponder responder);

}  // namespace stoker::serve
