#include <charconv>

#include <stoker/observe/metrics.h>

namespace stoker::observe {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Cuts the part up to `separator` off the front of `text`.
std::string_view Cut(std::string_view* text, char separator) {
  const size_t at = text->find(separator);
  const std::string_view part = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + 1);
  return Trim(part);
}

struct Offer {
  bool open_metrics = false;
  double quality = 1;
};

Offer ReadEntry(std::string_view entry) {
  Offer offer;
  const std::string_view type = Cut(&entry, ';');
  bool version_fits = true;
  while (!entry.empty()) {
    std::string_view parameter = Cut(&entry, ';');
    const std::string_view key = Cut(&parameter, '=');
    if (key == "version") version_fits = parameter == "1.0.0" || parameter == "\"1.0.0\"";
    if (key == "q" &&
        std::from_chars(parameter.data(), parameter.data() + parameter.size(), offer.quality).ec !=
            std::errc()) {
      offer.quality = 0;
    }
  }
  offer.open_metrics = type == "application/openmetrics-text" && version_fits;
  const bool text = type == "text/plain" || type == "text/*" || type == "*/*";
  if (!offer.open_metrics && !text) offer.quality = 0;
  return offer;
}

}  // namespace

TextFormat NegotiateFormat(std::string_view accept) {
  double open_metrics = 0;
  double text = 0;
  while (!accept.empty()) {
    const Offer offer = ReadEntry(Cut(&accept, ','));
    double& best = offer.open_metrics ? open_metrics : text;
    best = std::max(best, offer.quality);
  }
  return open_metrics > 0 && open_metrics >= text ? TextFormat::kOpenMetrics100 : TextFormat::kPrometheus004;
}

std::string_view ContentType(TextFormat format) {
  return format == TextFormat::kOpenMetrics100 ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                               : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace stoker::observe
