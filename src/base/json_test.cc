// The JSON reader, value and writer: tables of valid and invalid texts, strings against hand-computed
// bytes, and every truncation of a document.
#include <stoker/base/json.h>

#include <gtest/gtest.h>

namespace stoker::base {
namespace {

using std::string_literals::operator""s;

std::string Rewritten(std::string_view text) {
  const Result<JsonValue> value = JsonValue::Parse(text);
  if (!value.ok()) return value.status().ToString();
  std::string out;
  value->AppendTo(&out);
  return out;
}

TEST(JsonValueTest, ValidTexts) {
  const std::pair<std::string, std::string> cases[] = {
      {"null", "null"},
      {" true ", "true"},
      {"\t\r\n false", "false"},
      {"\xEF\xBB\xBF{}", "{}"},
      {"[ ]", "[]"},
      {"[[],[[]]]", "[[],[[]]]"},
      {"[1 , 2,3]", "[1,2,3]"},
      {"{\"a\":1,\"b\":{\"c\":[true,null,\"x\"]}}", "{\"a\":1,\"b\":{\"c\":[true,null,\"x\"]}}"},
      {"{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":2}"},
      {"{\"\":{}}", "{\"\":{}}"},
      {"0", "0"},
      {"-0", "-0"},
      {"-0.5e+10", "-0.5e+10"},
      {"1E2", "1E2"},
      {"0e0", "0e0"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"[NaN,Inf,Infinity,-Inf,-Infinity,-NaN]", "[NaN,Inf,Infinity,-Inf,-Infinity,-NaN]"},
      {R"("\"\\\/\b\f\n\r\t")", R"("\"\\/\b\f\n\r\t")"},
      {R"("\u0041\u00e9\u20AC\ud83d\uDE00\u0000")", "\"Aé€😀\\u0000\""},
      {"\"é€😀\x7f\"", "\"é€😀\x7f\""},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(Rewritten(text), wanted) << text;
}

TEST(JsonValueTest, InvalidTexts) {
  const std::string cases[] = {
      "",
      " ",
      "\xEF\xBB\xBF",
      "\xEF\xBB",
      "nul",
      "nulll",
      "True",
      "tru",
      "falsey",
      "[",
      "]",
      "{",
      "}",
      "[1",
      "[1,",
      "[1,]",
      "[,1]",
      "[1 2]",
      "[1}",
      "{]",
      "{\"a\"}",
      "{\"a\":}",
      "{\"a\":1,}",
      "{,}",
      "{a:1}",
      "{'a':1}",
      "{\"a\":1 \"b\":2}",
      "{\"a\" 1}",
      "{1:2}",
      "1 2",
      "[] []",
      "{}x",
      "// c\n1",
      "1 // c",
      "[1, /* c */ 2]",
      "# c\n1",
      "01",
      "-01",
      "00",
      "+1",
      "-",
      ".5",
      "1.",
      "-.5",
      "1.e5",
      "1e",
      "1e+",
      "1e-",
      "0x10",
      "1_000",
      "--1",
      "1.2.3",
      "1e5.5",
      "1e999",
      "-1e999",
      "[1e400]",
      "nan",
      "inf",
      "infinity",
      "+Inf",
      "--Inf",
      "Infinit",
      "NaNs",
      "NA",
      "- 1",
      "\"",
      "\"abc",
      "\"\\\"",
      "\"\\",
      "\"\\x41\"",
      "\"\\u\"",
      "\"\\u12\"",
      "\"\\u12g4\"",
      "\"\\u123",
      "\"\\U0041\"",
      "\"\\'\"",
      "\"\\ud800\"",
      "\"\\udc00\"",
      "\"\\ud800x\"",
      "\"\\ud800\\n\"",
      "\"\\ud800\\u0041\"",
      "\"\\ud800\\ud800\"",
      "\"\\udc00\\ud800\"",
      "\"\n\"",
      "\"a\tb\"",
      "\"\x1f\"",
      "\"\\\n\"",
      "\"\0\""s,
      "\0"s,
      "1\0"s,
      "[1,\0 2]"s,
      "\"\x80\"",
      "\"\xC0\x80\"",
      "\"\xC1\xBF\"",
      "\"\xE0\x80\x80\"",
      "\"\xED\xA0\x80\"",
      "\"\xF0\x80\x80\x80\"",
      "\"\xF4\x90\x80\x80\"",
      "\"\xF8\x88\x80\x80\x80\"",
      "\"\xFF\"",
      "\"\xC3\"",
      "\"\xE2\x82\"",
      "\"\xC3\\u0041\"",
      "\"\\\xC3\"",
      "\"\\\xC3\xA9\"",
      "{\"\xFF\":1}",
      "\xC3\xA9",
      "\xFF",
      "\xEF\xBB\xBF\xEF\xBB\xBF"
      "1",
  };
  for (const std::string& text : cases) {
    EXPECT_FALSE(JsonValue::Parse(text).ok()) << text;
    JsonReader reader(text);
    bool ok = reader.Skip().ok();
    if (ok) ok = reader.Finish().ok();
    // Skip checks syntax only, so a number beyond a double passes it.
    EXPECT_EQ(ok, text.find("e999") != text.npos || text.find("e400") != text.npos) << text;
  }
}

TEST(JsonValueTest, EveryTruncationIsAnError) {
  const std::string document =
      R"({"id":"4é\u20ac\ud83d\ude00","inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1.5,-2e3],[NaN,-Infinity]]}],)"
      R"("parameters":{"a":true,"b":null,"c":false,"d":[[],{}]}})";
  ASSERT_TRUE(JsonValue::Parse(document).ok());
  for (size_t size = 0; size < document.size(); ++size) {
    // A heap copy without slack, so that a sanitizer sees any read beyond the end.
    const std::vector<char> copy(document.begin(), document.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(JsonValue::Parse({copy.data(), copy.size()}).ok()) << size;
    JsonReader reader({copy.data(), copy.size()});
    EXPECT_FALSE(reader.Skip().ok()) << size;
  }
}

TEST(JsonValueTest, DepthIsBounded) {
  for (const std::string open : {"[", "{\"a\":", "[{\"a\":"}) {
    const int levels = open.size() == 6 ? 2 : 1;
    const auto bomb = [&](int count) {
      std::string text;
      for (int i = 0; i < count; ++i) text += open;
      text += "1";
      for (int i = 0; i < count; ++i) text += levels == 2 ? "}]" : open == "[" ? "]" : "}";
      return text;
    };
    EXPECT_TRUE(JsonValue::Parse(bomb(100 / levels)).ok());
    EXPECT_FALSE(JsonValue::Parse(bomb(100 / levels + 1)).ok());
    EXPECT_FALSE(JsonReader(bomb(1'000'000)).Skip().ok());
    EXPECT_TRUE(JsonReader(bomb(1'000'000), {.depth = 2'000'000}).Skip().ok());
  }
  EXPECT_EQ(JsonValue::Parse("[[[1]]]", {.depth = 2}).status().message(),
            "JSON, line 1, column 3: arrays and objects are nested deeper than the limit of 2");
}

TEST(JsonValueTest, Accessors) {
  const Result<JsonValue> value = JsonValue::Parse(
      R"({"i":-9223372036854775808,"big":9223372036854775808,"f":1.0,"b":true,"s":"x","a":[1],"s":"y"})");
  ASSERT_TRUE(value.ok()) << value.status().ToString();
  EXPECT_EQ(value->Find("i")->integer(), INT64_MIN);
  EXPECT_EQ(value->Find("big")->integer(), std::nullopt);
  EXPECT_EQ(value->Find("big")->number(), 9223372036854775808.0);
  EXPECT_EQ(value->Find("f")->integer(), std::nullopt);
  EXPECT_EQ(value->Find("f")->number_text(), "1.0");
  EXPECT_TRUE(value->Find("b")->boolean());
  EXPECT_EQ(value->Find("s")->string(), "x");
  EXPECT_EQ(value->Find("a")->array().size(), 1u);
  EXPECT_EQ(value->Find("none"), nullptr);
  EXPECT_EQ(value->Find("a")->Find("x"), nullptr);
  EXPECT_EQ(JsonValue::Parse("\"12\"")->integer(), std::nullopt);
}

TEST(JsonReaderTest, PullsADocument) {
  JsonReader reader(
      R"( {"name":"\u0078","skip":{"a":[1,{"b":2}]},"data":[[1,2],[3]],"on":false,"none":null,"n":-7} )");
  ASSERT_TRUE(reader.EnterObject().ok());
  std::string seen;
  std::string_view key;
  for (;;) {
    const Result<bool> more = reader.NextKey(&key);
    ASSERT_TRUE(more.ok()) << more.status().ToString();
    if (!*more) break;
    seen += key;
    seen += '=';
    if (key == "name") {
      seen += *reader.ReadString();
    } else if (key == "skip") {
      seen += *reader.Skip();
    } else if (key == "data") {
      int16_t data[3];
      ASSERT_TRUE(reader.ReadNumbers(data, 3).ok());
      seen += std::to_string(data[0] * 100 + data[1] * 10 + data[2]);
    } else if (key == "on") {
      seen += *reader.ReadBool() ? "yes" : "no";
    } else if (key == "none") {
      EXPECT_TRUE(reader.ReadNull().ok());
    } else {
      EXPECT_EQ(*reader.Peek(), JsonKind::kNumber);
      seen += std::to_string(*reader.ReadInt64());
    }
    seen += ' ';
  }
  EXPECT_TRUE(reader.Finish().ok());
  EXPECT_EQ(*reader.Peek(), JsonKind::kEnd);
  EXPECT_EQ(seen, R"(name=x skip={"a":[1,{"b":2}]} data=123 on=no none= n=-7 )");
}

TEST(JsonReaderTest, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(JsonValue::Parse("{\n  \"é\": [1,\n  2 3]}").status().message(),
            "JSON, line 3, column 5: expected ',' or ']' after an element, found \"3\"");
  EXPECT_EQ(JsonValue::Parse("[1,").status().message(),
            "JSON, line 1, column 4: expected a value, found the end of the text");
  EXPECT_EQ(JsonReader("[]").EnterObject().message(),
            "JSON, line 1, column 1: expected an object, found \"[\"");
  EXPECT_EQ(JsonReader("1").ReadString().status().message(),
            "JSON, line 1, column 1: expected a string in double quotes, found \"1\"");
  EXPECT_EQ(JsonValue::Parse("\"\\ud800\"").status().message(),
            "JSON, line 1, column 2: a surrogate without its other half is no character");
  EXPECT_EQ(JsonValue::Parse("{} {}").status().message(),
            "JSON, line 1, column 4: expected nothing after the value, found \"{\"");
}

TEST(JsonReaderTest, StringsOfEveryLengthAndOffset) {
  // The scanner reads eight bytes at a time: place each special at each position.
  for (size_t size = 0; size < 40; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::string plain(size, 'x');
      for (const char* special : {"\\n", "é", "\\u00e9", "\\\\", "\\\""}) {
        std::string text = plain;
        text.replace(at, 1, special);
        std::string wanted = plain;
        const std::string_view s = special;
        wanted.replace(at, 1, s == "\\n" ? "\n" : s == "\\\\" ? "\\" : s == "\\\"" ? "\"" : "é");
        const std::string quoted = "\"" + text + "\"";
        JsonReader reader(quoted);
        EXPECT_EQ(*reader.ReadString(), wanted) << quoted;
        EXPECT_TRUE(reader.Finish().ok());
      }
      for (const char bad : {'\n', '\0', '\x1f', '\xff', '\x80'}) {
        std::string text = "\"" + plain + "\"";
        text[at + 1] = bad;
        EXPECT_FALSE(JsonReader(text).ReadString().ok());
      }
    }
  }
}

TEST(JsonReaderTest, StringLeaves) {
  std::string seen;
  const auto visit = [&seen](std::string_view text) {
    if (text == "stop") return Cancelled("stopped");
    seen.append(text).append("|");
    return OkStatus();
  };
  JsonReader reader(R"([["a","\u00e9"],[[]],["",["\u0000z"]]] )");
  EXPECT_TRUE(reader.ReadStrings(visit).ok());
  EXPECT_TRUE(reader.Finish().ok());
  EXPECT_EQ(seen, "a|é||\0z|"s);
  EXPECT_EQ(JsonReader(R"(["a","stop","b"])").ReadStrings(visit).code(), StatusCode::kCancelled);
  for (const char* bad :
       {R"("a")", R"(["a",1])", R"(["a" "b"])", R"(["a",])", R"(["a")", R"([null])", R"([{"a":"b"}])", ""}) {
    EXPECT_FALSE(JsonReader(bad).ReadStrings(visit).ok()) << bad;
  }
}

TEST(JsonWriterTest, PutsCommasAndColons) {
  std::string out;
  JsonWriter writer(&out);
  const float floats[] = {1, 2.5f, -0.0f};
  const bool bools[] = {true, false};
  const uint8_t bytes[] = {0, 255};
  writer.BeginObject()
      .Key("a")
      .Int(-1)
      .Key("b")
      .BeginArray()
      .Uint(UINT64_MAX)
      .Double(0.1)
      .Float(0.1f)
      .EndArray();
  writer.Key("c")
      .BeginObject()
      .EndObject()
      .Key("d")
      .BeginArray()
      .EndArray()
      .Key("e")
      .Bool(true)
      .Key("f")
      .Null();
  writer.Key("g").Raw("[1]").Key("h\n").String("\"");
  writer.Key("n").Numbers<float>(floats).Key("o").Numbers<bool>(bools).Key("p").Numbers<uint8_t>(bytes);
  writer.Key("q").Numbers<float>({}).EndObject();
  EXPECT_EQ(
      out, R"({"a":-1,"b":[18446744073709551615,0.1,0.1],"c":{},"d":[],"e":true,"f":null,"g":[1],"h\n":"\"",)"
           R"("n":[1.0,2.5,-0.0],"o":[true,false],"p":[0,255],"q":[]})");
  EXPECT_TRUE(JsonValue::Parse(out).ok());
}

TEST(JsonWriterTest, StringsAreAlwaysValid) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    AppendJsonString(&out, text);
    return out;
  };
  EXPECT_EQ(quoted(""), "\"\"");
  EXPECT_EQ(quoted("a/b\x7f é😀"), "\"a/b\x7f é😀\"");
  EXPECT_EQ(quoted("\0\1\b\t\n\v\f\r\x1f\"\\"s), R"("\u0000\u0001\b\t\n\u000b\f\r\u001f\"\\")");
  EXPECT_EQ(quoted("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(quoted("\xE2\x82"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(quoted("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonWriterTest, EveryByteSurvives) {
  std::string text;
  for (int i = 0; i < 128; ++i) text += static_cast<char>(i);
  text += "é€😀";
  for (size_t start = 0; start < text.size() - 9; ++start) {
    std::string out;
    AppendJsonString(&out, std::string_view(text).substr(0, 128).substr(std::min<size_t>(start, 128)));
    AppendJsonString(&out, "");
    JsonReader reader(out);
    EXPECT_EQ(*reader.ReadString(),
              std::string_view(text).substr(0, 128).substr(std::min<size_t>(start, 128)));
  }
}

TEST(JsonValueTest, TheNumberOfValuesIsBounded) {
  const std::string text = R"([0,[1,{"a":2}]])";  // five values below the root
  EXPECT_TRUE(JsonValue::Parse(text, {.values = 5}).ok());
  const auto refused = JsonValue::Parse(text, {.values = 4});
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  std::string many = "[0";
  for (size_t i = 0; i < JsonLimits().values; ++i) many += ",0";
  EXPECT_FALSE(JsonValue::Parse(many + "]").ok());
}

}  // namespace
}  // namespace stoker::base
