#include <stoker/net/compression.h>

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include <stoker/base/str_cat.h>

#include "http_parser.h"

namespace stoker::net {
namespace {

using base::StrCat;

constexpr size_t kStepBytesMax = 1 << 30;  // zlib counts what it is given in 32 bits
constexpr size_t kFirstOutputBytes = 16 << 10;
constexpr int kWindowBits = 15;
constexpr int kGzipFlag = 16;
constexpr int kCompressionLevel = 1;

enum class Format { kGzip, kZlib, kRaw };

int WindowBits(Format format) {
  if (format == Format::kRaw) return -kWindowBits;
  return format == Format::kGzip ? kWindowBits + kGzipFlag : kWindowBits;
}

std::string_view NameOf(Format format) { return format == Format::kGzip ? "gzip" : "deflate"; }

Bytef* In(const std::byte* data) { return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data)); }

base::Status NoMemory(size_t bytes) {
  return base::ResourceExhausted(StrCat("no memory for ", bytes, " bytes of a decompressed body"));
}

// Memory that grows while its size is not known, up to a bound that is never passed.
class Output {
 public:
  Output(size_t first, size_t bytes_max) : next_(std::min(first, bytes_max)), bytes_max_(bytes_max) {}

  // Room for at least one byte; an empty span when the bound is reached.
  base::Result<std::span<std::byte>> Room() {
    if (size_ == memory_.size() && size_ < bytes_max_) {
      try {
        base::MutableBytes larger = base::MutableBytes::Allocate(next_);
        std::copy_n(memory_.data(), size_, larger.data());
        memory_ = std::move(larger);
      } catch (const std::bad_alloc&) {
        return NoMemory(next_);
      }
      next_ = next_ > bytes_max_ / 2 ? bytes_max_ : 2 * next_;
    }
    return memory_.span().subspan(size_);
  }
  void Advance(size_t bytes) { size_ += bytes; }
  base::Bytes Freeze() && { return std::move(memory_).Freeze(size_); }

 private:
  base::MutableBytes memory_;
  size_t size_ = 0;
  size_t next_;
  const size_t bytes_max_;
};

class Inflater {
 public:
  explicit Inflater(Format format) : format_(format) {
    ready_ = inflateInit2(&stream_, WindowBits(format)) == Z_OK;
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  base::Result<base::Bytes> Run(std::span<const std::byte> data, size_t bytes_max);

 private:
  base::Status Broken(std::string_view what) const {
    return base::InvalidArgument(StrCat("request body is not valid ", NameOf(format_), " data: ", what));
  }
  base::Status Step(std::span<const std::byte>* rest, std::span<std::byte> room, size_t* produced);
  base::Status EndMember(std::span<const std::byte> rest);

  const Format format_;
  bool ready_ = false;
  bool ended_ = false;
  z_stream stream_{};
};

base::Status Inflater::Step(std::span<const std::byte>* rest, std::span<std::byte> room, size_t* produced) {
  const size_t given = std::min(rest->size(), kStepBytesMax);
  const size_t offered = std::min(room.size(), kStepBytesMax);
  stream_.next_in = In(rest->data());
  stream_.avail_in = static_cast<uInt>(given);
  stream_.next_out = reinterpret_cast<Bytef*>(room.data());
  stream_.avail_out = static_cast<uInt>(offered);
  const int result = inflate(&stream_, Z_NO_FLUSH);
  *rest = rest->subspan(given - stream_.avail_in);
  *produced = offered - stream_.avail_out;
  if (result == Z_STREAM_END) return EndMember(*rest);
  if (result == Z_MEM_ERROR) return NoMemory(kStepBytesMax >> 15);
  if (result == Z_NEED_DICT) return Broken("it wants a preset dictionary");
  if (result != Z_OK && result != Z_BUF_ERROR)
    return Broken(stream_.msg == nullptr ? "unknown error" : stream_.msg);
  if (rest->empty() && *produced < offered) return Broken("it ends too early");
  return base::OkStatus();
}

// A gzip file may hold several members, one after the other.
base::Status Inflater::EndMember(std::span<const std::byte> rest) {
  ended_ = rest.empty();
  if (ended_) return base::OkStatus();
  const bool another = format_ == Format::kGzip && rest.size() >= 2 && rest[0] == std::byte{0x1f} &&
                       rest[1] == std::byte{0x8b};
  if (!another) return Broken(StrCat(rest.size(), " bytes follow its end"));
  inflateReset(&stream_);
  return base::OkStatus();
}

base::Result<base::Bytes> Inflater::Run(std::span<const std::byte> data, size_t bytes_max) {
  if (!ready_) return NoMemory(kStepBytesMax >> 15);
  if (data.empty()) return Broken("it is empty");
  Output output(std::max(kFirstOutputBytes, 2 * std::min(data.size(), bytes_max)), bytes_max);
  while (!ended_) {
    STOKER_ASSIGN_OR_RETURN(std::span<std::byte> room, output.Room());
    // At the bound one spare byte tells whether the stream ends here or goes on.
    std::byte spare{};
    const bool full = room.empty();
    size_t produced = 0;
    STOKER_RETURN_IF_ERROR(Step(&data, full ? std::span<std::byte>(&spare, 1) : room, &produced));
    if (full && produced > 0) {
      return base::ResourceExhausted(
          StrCat("decompressed request body exceeds the limit of ", bytes_max, " bytes"));
    }
    if (!full) output.Advance(produced);
  }
  return std::move(output).Freeze();
}

bool LooksLikeZlib(std::span<const std::byte> data) {
  if (data.size() < 2) return false;
  const auto first = std::to_integer<unsigned>(data[0]);
  const auto second = std::to_integer<unsigned>(data[1]);
  return (first & 0x0f) == Z_DEFLATED && (first * 256 + second) % 31 == 0;
}

void DeflateAll(z_stream* stream, std::span<const std::byte> data, bool last, Output* output) {
  int result = Z_OK;
  do {
    auto room = output->Room();
    CHECK(room.ok());  // out of memory on the way out: there is nobody to tell
    const size_t given = std::min(data.size(), kStepBytesMax);
    const size_t offered = std::min(room->size(), kStepBytesMax);
    stream->next_in = In(data.data());
    stream->avail_in = static_cast<uInt>(given);
    stream->next_out = reinterpret_cast<Bytef*>(room->data());
    stream->avail_out = static_cast<uInt>(offered);
    result = deflate(stream, last ? Z_FINISH : Z_NO_FLUSH);
    CHECK(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR);
    data = data.subspan(given - stream->avail_in);
    output->Advance(offered - stream->avail_out);
  } while (!data.empty() || (last && result != Z_STREAM_END));
}

struct Offer {
  double gzip = 0;
  double deflate = 0;
  double identity = 0;
};

// The q of one element of Accept-Encoding (without parameters: 1); nothing when it is malformed.
std::optional<double> Quality(std::string_view parameters) {
  const auto trim = [](std::string_view text) {
    const size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) return std::string_view();
    return text.substr(start, text.find_last_not_of(" \t") - start + 1);
  };
  parameters = trim(parameters);
  if (parameters.empty()) return 1.0;
  const size_t equals = parameters.find('=');
  if (equals == std::string_view::npos ||
      !internal::EqualsIgnoreCase(trim(parameters.substr(0, equals)), "q"))
    return std::nullopt;
  const std::string_view value = trim(parameters.substr(equals + 1));
  if (value.empty() || value.size() > 5 || (value[0] != '0' && value[0] != '1')) return std::nullopt;
  double quality = value[0] - '0';
  double unit = 0.1;
  for (size_t i = 1; i < value.size(); ++i) {
    if (i == 1 ? value[i] != '.' : (value[i] < '0' || value[i] > '9')) return std::nullopt;
    if (i == 1) continue;
    quality += unit * (value[i] - '0');
    unit /= 10;
  }
  return std::min(quality, 1.0);
}

}  // namespace

base::Result<base::Bytes> Decompress(ContentCoding coding, std::span<const std::byte> data,
                                     size_t bytes_max) {
  if (coding == ContentCoding::kGzip) return Inflater(Format::kGzip).Run(data, bytes_max);
  if (coding == ContentCoding::kDeflate) {
    if (!LooksLikeZlib(data)) return Inflater(Format::kRaw).Run(data, bytes_max);
    auto result = Inflater(Format::kZlib).Run(data, bytes_max);
    if (result.ok() || result.status().code() != base::StatusCode::kInvalidArgument) return result;
    // One raw stream in a thousand starts like the other format.
    auto raw = Inflater(Format::kRaw).Run(data, bytes_max);
    return raw.ok() ? std::move(raw) : std::move(result);
  }
  if (data.size() > bytes_max) {
    return base::ResourceExhausted(
        StrCat("request body of ", data.size(), " bytes exceeds the limit of ", bytes_max, " bytes"));
  }
  base::MutableBytes copy = base::MutableBytes::Allocate(data.size());
  std::copy(data.begin(), data.end(), copy.data());
  return std::move(copy).Freeze();
}

base::Bytes Compress(ContentCoding coding, std::span<const base::Bytes> parts) {
  size_t total = 0;
  for (const base::Bytes& part : parts) total += part.size();
  if (coding == ContentCoding::kIdentity) {
    base::MutableBytes copy = base::MutableBytes::Allocate(total);
    std::byte* end = copy.data();
    for (const base::Bytes& part : parts) end = std::copy_n(part.data(), part.size(), end);
    return std::move(copy).Freeze();
  }
  z_stream stream{};
  const int bits = WindowBits(coding == ContentCoding::kGzip ? Format::kGzip : Format::kZlib);
  CHECK(deflateInit2(&stream, kCompressionLevel, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Output output(deflateBound(&stream, total), std::numeric_limits<size_t>::max());
  for (const base::Bytes& part : parts) DeflateAll(&stream, part.span(), false, &output);
  DeflateAll(&stream, {}, true, &output);
  deflateEnd(&stream);
  return std::move(output).Freeze();
}

ContentCoding ChooseCoding(std::string_view accept_encoding) {
  Offer offer;
  while (!accept_encoding.empty()) {
    const size_t comma = accept_encoding.find(',');
    const std::string_view element = accept_encoding.substr(0, comma);
    accept_encoding =
        comma == std::string_view::npos ? std::string_view() : accept_encoding.substr(comma + 1);
    const size_t semicolon = element.find(';');
    std::string_view name = element.substr(0, semicolon);
    while (!name.empty() && (name.front() == ' ' || name.front() == '\t')) name.remove_prefix(1);
    while (!name.empty() && (name.back() == ' ' || name.back() == '\t')) name.remove_suffix(1);
    const auto quality =
        Quality(semicolon == std::string_view::npos ? std::string_view() : element.substr(semicolon + 1));
    if (!quality) continue;
    if (internal::EqualsIgnoreCase(name, "gzip") || internal::EqualsIgnoreCase(name, "x-gzip"))
      offer.gzip = *quality;
    if (internal::EqualsIgnoreCase(name, "deflate")) offer.deflate = *quality;
    if (internal::EqualsIgnoreCase(name, "identity")) offer.identity = *quality;
  }
  const double best = std::max(offer.gzip, offer.deflate);
  if (best <= 0 || offer.identity > best) return ContentCoding::kIdentity;
  return offer.gzip >= offer.deflate ? ContentCoding::kGzip : ContentCoding::kDeflate;
}

}  // namespace stoker::net
