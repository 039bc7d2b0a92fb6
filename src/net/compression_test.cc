// Aim: what other tools compress is read, what we compress is read by zlib's own calls, and neither
// a bomb nor a broken stream gets far. Method: zlib's one-call functions as the reference.

#include <stoker/net/compression.h>

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace stoker::net {
namespace {

std::span<const std::byte> Span(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

std::string Reference(const std::string& text, int window_bits, int level = 6) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

constexpr int kGzipBits = 31;
constexpr int kZlibBits = 15;
constexpr int kRawBits = -15;

std::string Text(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>("abcd"[random() % 4]);
  return text;
}

TEST(CompressionTest, ReadsWhatZlibWrites) {
  for (const size_t size : {0ul, 1ul, 100ul, 16384ul, 16385ul, 1000000ul}) {
    const std::string text = Text(size, 7);
    for (const int bits : {kGzipBits, kZlibBits, kRawBits}) {
      const auto coding = bits == kGzipBits ? ContentCoding::kGzip : ContentCoding::kDeflate;
      const std::string packed = Reference(text, bits);
      const auto out = Decompress(coding, Span(packed), size);  // the bound may be met exactly
      ASSERT_TRUE(out.ok()) << out.status().ToString() << " size " << size << " bits " << bits;
      EXPECT_EQ(out->text(), text);
    }
  }
}

TEST(CompressionTest, WritesWhatZlibReadsWhateverTheParts) {
  const std::string text = Text(300000, 9);
  for (const auto coding : {ContentCoding::kGzip, ContentCoding::kDeflate, ContentCoding::kIdentity}) {
    std::mt19937 random(11);
    std::vector<base::Bytes> parts;
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min<size_t>(random() % 50000, text.size() - at);
      parts.push_back(base::Bytes::Own(text.substr(at, size)));
      at += size;
    }
    const base::Bytes packed = Compress(coding, parts);
    if (coding == ContentCoding::kIdentity) {
      EXPECT_EQ(packed.text(), text);
      continue;
    }
    EXPECT_LT(packed.size(), text.size() / 2);
    z_stream stream{};
    ASSERT_EQ(inflateInit2(&stream, coding == ContentCoding::kGzip ? kGzipBits : kZlibBits), Z_OK);
    std::string out(text.size() + 10, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    EXPECT_EQ(stream.avail_in, 0u);
    inflateEnd(&stream);
    EXPECT_EQ(out, text);
  }
  EXPECT_TRUE(Decompress(ContentCoding::kGzip, Compress(ContentCoding::kGzip, {}).span(), 10)->empty());
}

TEST(CompressionTest, IncompressibleDataFits) {
  std::mt19937_64 random(3);
  std::string noise(1 << 20, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  const base::Bytes parts[] = {base::Bytes::Own(noise)};
  const auto back =
      Decompress(ContentCoding::kGzip, Compress(ContentCoding::kGzip, parts).span(), noise.size());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->text(), noise);
  std::vector<base::Bytes> crumbs;
  for (size_t i = 0; i < 20000; ++i) crumbs.push_back(parts[0].Slice(i, 1));
  const auto crumbled =
      Decompress(ContentCoding::kDeflate, Compress(ContentCoding::kDeflate, crumbs).span(), 20000);
  ASSERT_TRUE(crumbled.ok());
  EXPECT_EQ(crumbled->text(), noise.substr(0, 20000));
}

TEST(CompressionTest, ABombEndsAtTheLimit) {
  const std::string bomb = Reference(std::string(100 << 20, '\0'), kGzipBits, 9);
  ASSERT_LT(bomb.size(), 200000u);
  for (const size_t limit : {0ul, 1ul, 16384ul, 1ul << 20, (100ul << 20) - 1}) {
    const auto out = Decompress(ContentCoding::kGzip, Span(bomb), limit);
    EXPECT_EQ(out.status().code(), base::StatusCode::kResourceExhausted) << limit;
  }
  EXPECT_EQ(Decompress(ContentCoding::kIdentity, Span(bomb), 10).status().code(),
            base::StatusCode::kResourceExhausted);
}

TEST(CompressionTest, EveryTruncationIsRefused) {
  const std::string text = Text(2000, 1);
  for (const int bits : {kGzipBits, kZlibBits, kRawBits}) {
    const auto coding = bits == kGzipBits ? ContentCoding::kGzip : ContentCoding::kDeflate;
    const std::string packed = Reference(text, bits);
    for (size_t size = 0; size < packed.size(); ++size) {
      EXPECT_EQ(Decompress(coding, Span(packed).subspan(0, size), 1 << 20).status().code(),
                base::StatusCode::kInvalidArgument)
          << size;
    }
  }
}

TEST(CompressionTest, BrokenDataAndTrailingRubbishAreRefused) {
  const std::string packed = Reference(Text(2000, 1), kGzipBits);
  EXPECT_FALSE(Decompress(ContentCoding::kGzip, Span(packed + "x"), 1 << 20).ok());
  EXPECT_FALSE(Decompress(ContentCoding::kGzip, Span(packed + "\x1f\x8b"), 1 << 20).ok());
  EXPECT_FALSE(Decompress(ContentCoding::kGzip, Span(std::string("hello world")), 1 << 20).ok());
  EXPECT_FALSE(Decompress(ContentCoding::kGzip, Span(Reference("abc", kZlibBits)), 1 << 20).ok());
  EXPECT_FALSE(Decompress(ContentCoding::kDeflate, Span(packed), 1 << 20).ok());
  std::string flipped = packed;
  flipped[flipped.size() - 6] = static_cast<char>(~flipped[flipped.size() - 6]);  // in the checksum
  EXPECT_FALSE(Decompress(ContentCoding::kGzip, Span(flipped), 1 << 20).ok());
}

TEST(CompressionTest, SeveralGzipMembersAreOneBody) {
  const std::string packed =
      Reference("hello ", kGzipBits) + Reference("", kGzipBits) + Reference("world", kGzipBits);
  const auto out = Decompress(ContentCoding::kGzip, Span(packed), 11);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(out->text(), "hello world");
  EXPECT_EQ(Decompress(ContentCoding::kGzip, Span(packed), 10).status().code(),
            base::StatusCode::kResourceExhausted);
}

TEST(CompressionTest, CodingChosenByQuality) {
  using enum ContentCoding;
  const std::pair<std::string_view, ContentCoding> cases[] = {{"", kIdentity},
                                                              {"*", kIdentity},
                                                              {"identity", kIdentity},
                                                              {"br", kIdentity},
                                                              {"gzip", kGzip},
                                                              {"GZIP", kGzip},
                                                              {"x-gzip", kGzip},
                                                              {"deflate", kDeflate},
                                                              {"gzip, deflate", kGzip},
                                                              {"deflate, gzip", kGzip},
                                                              {"gzip;q=0.5, deflate;q=0.8", kDeflate},
                                                              {"gzip;q=0.5,deflate;q=0.5", kGzip},
                                                              {"gzip;q=0", kIdentity},
                                                              {"gzip;q=0.000, deflate;q=0", kIdentity},
                                                              {"gzip ; q = 0.3 , br", kGzip},
                                                              {"gzip;q=0.001", kGzip},
                                                              {"gzip;q=x", kIdentity},
                                                              {"gzip;q=", kIdentity},
                                                              {"gzip;q=2", kIdentity},
                                                              {"gzip;level=1", kIdentity},
                                                              {"gzip;q=0.5, identity", kIdentity},
                                                              {"identity;q=0.5, gzip;q=0.5", kGzip},
                                                              {",,, deflate", kDeflate},
                                                              {"gzipp", kIdentity},
                                                              {"gzip;q=1.000", kGzip}};
  for (const auto& [header, wanted] : cases) EXPECT_EQ(ChooseCoding(header), wanted) << header;
}

}  // namespace
}  // namespace stoker::net
