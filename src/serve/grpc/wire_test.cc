// Aim: protobuf's wire format is read within bounds and written to the byte. Method: bytes by hand.
#include "grpc/wire.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace stoker::serve {
namespace {

using std::string_literals::operator""s;

struct Walk {
  std::vector<WireField> fields;
  bool ok = false;
};

Walk Read(std::string_view bytes) {
  Walk walk;
  WireReader reader(bytes);
  WireField field;
  while (reader.Next(&field)) walk.fields.push_back(field);
  walk.ok = reader.ok();
  return walk;
}

TEST(WireTest, ReadsEachType) {
  const std::string bytes =
      "\x08\x96\x01"s  // 1: varint 150
      "\x12\x03"s
      "abc"                                         // 2: bytes
      "\x1d\x04\x03\x02\x01"s                       // 3: fixed 32
      "\xa1\x06\x08\x07\x06\x05\x04\x03\x02\x01"s;  // 100: fixed 64
  const Walk walk = Read(bytes);
  ASSERT_TRUE(walk.ok);
  ASSERT_EQ(walk.fields.size(), 4u);
  EXPECT_EQ(walk.fields[0].number, 1u);
  EXPECT_EQ(walk.fields[0].value, 150u);
  EXPECT_EQ(walk.fields[1].bytes, "abc");
  EXPECT_EQ(walk.fields[2].value, 0x01020304u);
  EXPECT_EQ(walk.fields[3].number, 100u);
  EXPECT_EQ(walk.fields[3].value, 0x0102030405060708u);
}

TEST(WireTest, EmptyIsAMessage) { EXPECT_TRUE(Read("").ok); }

TEST(WireTest, RefusesWhatIsCutOrNoField) {
  for (const std::string& bytes : {
           "\x08"s,      // varint missing
           "\x08\x80"s,  // varint cut
           "\x12\x03"
           "ab"s,                                // bytes cut
           "\x12\xff\xff\xff\xff\x0f"s,          // longer than anything
           "\x12\x80\x80\x80\x80\x80\x01"s,      // length of six bytes
           "\x1d\x01\x02\x03"s,                  // fixed 32 cut
           "\x09\x01\x02\x03\x04\x05\x06\x07"s,  // fixed 64 cut
           "\x02\x01"
           "a"s,                                                 // field number 0
           "\x0b\x0c"s,                                          // group
           "\x0e\x01"s, "\x0f\x01"s,                             // no wire types
           "\xff\xff\xff\xff\x7f\x01"s,                          // tag beyond 32 bits
           "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"s,  // varint of eleven bytes
       }) {
    EXPECT_FALSE(Read(bytes).ok) << bytes.size() << " bytes, first " << int{bytes[0]};
  }
}

TEST(WireTest, NothingFollowsAFault) {
  WireReader reader("\x0b\x08\x01");
  WireField field;
  EXPECT_FALSE(reader.Next(&field));
  EXPECT_FALSE(reader.Next(&field));
  EXPECT_FALSE(reader.ok());
}

TEST(WireTest, WritesWhatWasMeasured) {
  std::vector<std::byte> memory(64);
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{127}, uint64_t{128}, uint64_t{16383},
                               uint64_t{16384}, uint64_t{1} << 32, UINT64_MAX}) {
    WireWriter out(memory.data());
    const char* start = out.at();
    out.VarintField(300, value);
    ASSERT_EQ(static_cast<size_t>(out.at() - start), VarintFieldSize(300, value));
    const Walk walk = Read({start, static_cast<size_t>(out.at() - start)});
    ASSERT_TRUE(walk.ok);
    EXPECT_EQ(walk.fields[0].number, 300u);
    EXPECT_EQ(walk.fields[0].value, value);
  }
  WireWriter out(memory.data());
  const char* start = out.at();
  out.BytesField(2, "testing");
  EXPECT_EQ(std::string_view(start, static_cast<size_t>(out.at() - start)), "\x12\x07testing");
  EXPECT_EQ(BytesFieldSize(2, 7), 9u);
}

TEST(WireTest, CountsVarints) {
  EXPECT_EQ(CountVarints("\x01\x80\x01\xff\xff\x03"), 3u);
  EXPECT_EQ(CountVarints(""), 0u);
}

}  // namespace
}  // namespace stoker::serve
