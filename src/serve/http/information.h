#pragma once

#include <stoker/net/http_message.h>
#include <stoker/serve/door.h>

#include "http/routes.h"

namespace stoker::serve {

/// The answers that only look: health, metadata, configuration, statistics, index of the repository.
net::HttpResponse ServerHealth(const DoorContext& context, bool readiness);
net::HttpResponse ModelReadiness(const DoorContext& context, const HttpRouteMatch& match);
net::HttpResponse ServerMetadata(const DoorOptions& options);
net::HttpResponse ModelMetadata(const DoorContext& context, const HttpRouteMatch& match);
net::HttpResponse ModelConfiguration(const DoorContext& context, const HttpRouteMatch& match);
net::HttpResponse Statistics(const DoorContext& context, const HttpRouteMatch& match);

}  // namespace stoker::serve
