#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include <stoker/base/check.h>
#include <stoker/base/mutex.h>
#include <stoker/base/str_cat.h>
#include <stoker/observe/metrics.h>

namespace stoker::observe {
namespace {

constexpr size_t kSeriesMax = 10'000;  // per family

using base::StrAppend;

/// A number as both formats want it: integers plain, others shortest; "+Inf", "NaN".
std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::abs(value) < 9e15) return base::StrCat(static_cast<int64_t>(value));
  return base::StrCat(value);
}

/// A bucket bound in canonical spelling, the same in both formats: "1.0", "0.25", "1e+06".
std::string Bound(double value) {
  char buffer[32];
  const int size = std::snprintf(buffer, sizeof(buffer), "%.6g", value);
  std::string out(buffer, static_cast<size_t>(size));
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

void AppendEscaped(std::string* out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      *out += "\\\\";
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '"' && quotes) {
      *out += "\\\"";
    } else {
      *out += c;
    }
  }
}

std::string LabelText(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    StrAppend(&out, out.empty() ? "" : ",", name, "=\"");
    AppendEscaped(&out, value, true);
    out += '"';
  }
  return out;
}

struct Callback {
  base::Mutex mutex;
  std::function<double()> read GUARDED_BY(mutex);
};

struct Series {
  std::weak_ptr<Counter> counter;
  std::weak_ptr<Gauge> gauge;
  std::weak_ptr<Histogram> histogram;
  std::weak_ptr<Callback> callback;

  bool gone() const {
    return counter.expired() && gauge.expired() && histogram.expired() && callback.expired();
  }
};

struct Family {
  MetricType type = MetricType::kCounter;
  std::string help;
  std::map<std::string, Series> series;  // by rendered labels
};

std::string WithLabel(const std::string& labels, std::string_view more) {
  return base::StrCat("{", labels, labels.empty() || more.empty() ? "" : ",", more, "}");
}

void AppendSample(std::string* out, std::string_view name, const std::string& labels, double value) {
  StrAppend(out, name, labels.empty() ? "" : WithLabel(labels, ""), " ", Number(value), "\n");
}

void AppendHistogram(std::string* out, std::string_view name, const std::string& labels,
                     const Histogram& histogram) {
  const auto snapshot = histogram.Read();
  for (size_t i = 0; i < snapshot.cumulative.size(); ++i) {
    const bool last = i == histogram.upper_bounds().size();
    const std::string le = base::StrCat("le=\"", last ? "+Inf" : Bound(histogram.upper_bounds()[i]), "\"");
    StrAppend(out, name, "_bucket", WithLabel(labels, le), " ", snapshot.cumulative[i], "\n");
  }
  AppendSample(out, base::StrCat(name, "_sum"), labels, snapshot.sum);
  AppendSample(out, base::StrCat(name, "_count"), labels, static_cast<double>(snapshot.count));
}

void AppendSeries(std::string* out, std::string_view name, const std::string& labels, const Series& series) {
  if (const auto counter = series.counter.lock()) {
    StrAppend(out, name, labels.empty() ? "" : WithLabel(labels, ""), " ", counter->Value(), "\n");
  } else if (const auto gauge = series.gauge.lock()) {
    AppendSample(out, name, labels, gauge->Value());
  } else if (const auto histogram = series.histogram.lock()) {
    AppendHistogram(out, name, labels, *histogram);
  } else if (const auto callback = series.callback.lock()) {
    base::MutexLock lock(&callback->mutex);
    if (callback->read) AppendSample(out, name, labels, callback->read());
  }
}

/// Triton's counters carry no _total, which OpenMetrics demands of counters: there they are `unknown`.
std::string_view TypeName(MetricType type, std::string_view name, TextFormat format) {
  if (type == MetricType::kGauge) return "gauge";
  if (type == MetricType::kHistogram) return "histogram";
  if (format == TextFormat::kPrometheus004 || name.ends_with("_total")) return "counter";
  return "unknown";
}

}  // namespace

struct Registry::State {
  base::Mutex mutex;
  std::map<std::string, Family, std::less<>> families GUARDED_BY(mutex);

  /// The slot for these labels; the shared overflow slot when the family is full.
  Series& Slot(std::string_view name, MetricType type, const Labels& labels) REQUIRES(mutex) {
    const auto family = families.find(name);
    CHECK(family != families.end() && family->second.type == type);
    auto& series = family->second.series;
    if (series.size() >= kSeriesMax)
      std::erase_if(series, [](const auto& entry) { return entry.second.gone(); });
    std::string text = LabelText(labels);
    if (series.size() >= kSeriesMax && !series.contains(text)) text = "overflow=\"true\"";
    return series[text];
  }
};

Registry::Registry() : state_(std::make_unique<State>()) {}
Registry::~Registry() = default;

void Registry::Declare(std::string_view name, MetricType type, std::string_view help) {
  base::MutexLock lock(&state_->mutex);
  auto [entry, added] = state_->families.try_emplace(std::string(name));
  CHECK(added || entry->second.type == type);
  entry->second.type = type;
  entry->second.help = help;
}

std::shared_ptr<Counter> Registry::AddCounter(std::string_view family, Labels labels) {
  base::MutexLock lock(&state_->mutex);
  Series& series = state_->Slot(family, MetricType::kCounter, labels);
  auto counter = series.counter.lock();
  if (!counter) series.counter = counter = std::make_shared<Counter>();
  return counter;
}

std::shared_ptr<Gauge> Registry::AddGauge(std::string_view family, Labels labels) {
  base::MutexLock lock(&state_->mutex);
  Series& series = state_->Slot(family, MetricType::kGauge, labels);
  auto gauge = series.gauge.lock();
  if (!gauge) series.gauge = gauge = std::make_shared<Gauge>();
  return gauge;
}

std::shared_ptr<Histogram> Registry::AddHistogram(std::string_view family, Labels labels,
                                                  std::vector<double> upper_bounds) {
  base::MutexLock lock(&state_->mutex);
  Series& series = state_->Slot(family, MetricType::kHistogram, labels);
  auto histogram = series.histogram.lock();
  if (!histogram) series.histogram = histogram = std::make_shared<Histogram>(std::move(upper_bounds));
  return histogram;
}

std::shared_ptr<void> Registry::AddCallback(std::string_view family, Labels labels,
                                            std::function<double()> read) {
  base::MutexLock lock(&state_->mutex);
  const auto found = state_->families.find(family);
  CHECK(found != state_->families.end());
  auto callback = std::make_shared<Callback>();
  {
    base::MutexLock inner(&callback->mutex);
    callback->read = std::move(read);
  }
  state_->Slot(family, found->second.type, labels).callback = callback;
  // Dropping the handle clears the function first, under its lock: a running scrape is waited for.
  return std::shared_ptr<void>(callback.get(), [callback](void*) {
    base::MutexLock inner(&callback->mutex);
    callback->read = nullptr;
  });
}

std::string Registry::Render(TextFormat format) const {
  std::string out;
  base::MutexLock lock(&state_->mutex);
  for (auto& [name, family] : state_->families) {
    std::erase_if(family.series, [](const auto& entry) { return entry.second.gone(); });
    const std::string_view type = TypeName(family.type, name, format);
    std::string_view described = name;
    if (format == TextFormat::kOpenMetrics100 && type == "counter") described.remove_suffix(6);  // "_total"
    StrAppend(&out, "# HELP ", described, " ");
    AppendEscaped(&out, family.help, format == TextFormat::kOpenMetrics100);
    StrAppend(&out, "\n# TYPE ", described, " ", type, "\n");
    for (const auto& [labels, series] : family.series) AppendSeries(&out, name, labels, series);
  }
  if (format == TextFormat::kOpenMetrics100) out += "# EOF\n";
  return out;
}

size_t Registry::series() const {
  base::MutexLock lock(&state_->mutex);
  size_t count = 0;
  for (const auto& [name, family] : state_->families) {
    for (const auto& [labels, series] : family.series) count += series.gone() ? 0 : 1;
  }
  return count;
}

}  // namespace stoker::observe
