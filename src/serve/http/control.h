#pragma once

#include <string_view>

#include <stoker/net/http_message.h>
#include <stoker/net/http_server.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// The calls that change or list what is served: repository index, load, unload, log settings.
void RepositoryIndex(const DoorContext& context, net::HttpRequest request, net::HttpResponder responder);
void LoadModel(const DoorContext& context, const DoorOptions& options, std::string_view model,
               net::HttpRequest request, net::HttpResponder responder);
void UnloadModel(const DoorContext& context, std::string_view model, net::HttpRequest request,
                 net::HttpResponder responder);
net::HttpResponse LogSettings(const DoorContext& context, const net::HttpRequest& request);

}  // namespace stoker::serve
