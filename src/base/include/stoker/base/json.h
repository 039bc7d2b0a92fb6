#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stoker/base/status.h>

namespace stoker::base {

/// What the next JSON token is.
enum class JsonKind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject, kEnd };

struct JsonLimits {
  int depth = 100;          // nesting of arrays and objects
  size_t values = 1 << 18;  // that a JsonValue holds, each many times larger than its text
};

/// A pull parser over text in memory: no tree, no recursion, numbers go straight where the caller
/// wants them. Beyond RFC 8259 it takes a UTF-8 byte order mark and, as Triton's clients send them,
/// bare NaN, Inf, Infinity and their negatives. It refuses lone surrogates, control characters in
/// strings, leading zeros, trailing commas, comments, invalid UTF-8, nesting beyond the limit and
/// anything after the value. Errors tell line, column and what was expected. Not thread-safe.
///
///   JsonReader reader(text);
///   STOKER_RETURN_IF_ERROR(reader.EnterObject());
///   std::string_view key;
///   for (;;) {
///     STOKER_ASSIGN_OR_RETURN(const bool more, reader.NextKey(&key));
///     if (!more) break;
///     … exactly one of Read…, Enter… or Skip …
///   }
///   return reader.Finish();
class JsonReader {
 public:
  explicit JsonReader(std::string_view text, JsonLimits limits = {});

  /// The kind of the value that comes next (after whitespace); kEnd at the end of the text.
  /// An unexpected character yields an error.
  Result<JsonKind> Peek();

  Status EnterObject();
  /// In an object: reads the next key (unescaped, valid until the next call) and its colon; false
  /// when the object ended (which leaves it).
  Result<bool> NextKey(std::string_view* key);
  Status EnterArray();
  /// In an array: true when a further element follows; false when it ended (which leaves it).
  Result<bool> NextElement();

  Status ReadNull();
  Result<bool> ReadBool();
  /// Integers without fraction or exponent. kOutOfRange beyond the type, kInvalidArgument otherwise.
  Result<int64_t> ReadInt64();
  Result<uint64_t> ReadUint64();
  /// Any number, correctly rounded; 1e999 is an error (kOutOfRange). FP32 overflow gives Infinity.
  Result<double> ReadDouble();
  Result<double> ReadDouble(std::string_view* text);  // and the number as written
  Result<float> ReadFloat();
  /// The unescaped text; the view is valid until the next call.
  Result<std::string_view> ReadString();
  /// The text of the next number as written (for callers that choose the type later).
  Result<std::string_view> ReadNumberText();
  /// Skips one value of any kind (validating it). Returns the raw text of it.
  Result<std::string_view> Skip();
  /// Checks that nothing but whitespace follows.
  Status Finish();

  /// Fast paths for tensors: each reads one complete JSON array, flat or nested in any way (only the
  /// number of leaves counts), into out[0, count). Fails unless it holds exactly `count` leaves of that
  /// type. An integer beyond its type gives kOutOfRange, anything else kInvalidArgument.
  Status ReadNumbers(float* out, size_t count);
  Status ReadNumbers(double* out, size_t count);
  Status ReadNumbers(int64_t* out, size_t count);
  Status ReadNumbers(uint64_t* out, size_t count);
  Status ReadNumbers(int32_t* out, size_t count);
  Status ReadNumbers(uint32_t* out, size_t count);
  Status ReadNumbers(int16_t* out, size_t count);
  Status ReadNumbers(uint16_t* out, size_t count);
  Status ReadNumbers(int8_t* out, size_t count);
  Status ReadNumbers(uint8_t* out, size_t count);
  Status ReadNumbers(bool* out, size_t count);  // true and false only
  /// The same for strings: calls `visit` for each leaf in order with its unescaped text, valid during
  /// the call; stops with the first status that is not OK. The caller counts.
  Status ReadStrings(const std::function<Status(std::string_view)>& visit);

  /// "line 3, column 7" of the cursor (columns count characters).
  std::string Where() const;

 private:
  Status Fail(const char* at, std::string_view problem, StatusCode code = StatusCode::kInvalidArgument);
  Status Expected(std::string_view wanted);
  Status Enter(char open, std::string_view wanted);
  Status TooDeep(const char* at);
  bool StepOver(char c);
  Status ReadWord(std::string_view word);
  Status Unescape(const char* p, const char* end);
  Result<std::string_view> ReadStringAt();
  Status SkipScalar();
  Status SkipContainer();
  Status NumberFault(const char* at, int fault, std::string_view wanted);
  template <typename T>
  Result<T> ReadNumber();
  template <typename T>
  Status ReadNumberArray(T* out, size_t count);
  template <typename Leaf>
  Status ReadLeaves(Leaf&& leaf);

  const char* start_;
  const char* cursor_;
  const char* end_;
  int depth_limit_;
  int depth_ = 0;
  bool first_ = true;    // nothing read yet in the innermost array or object
  std::string scratch_;  // the last unescaped string
  std::string open_;     // Skip: brackets to close
};

/// A parsed JSON value, for cold paths (configuration, control requests). Object order and duplicate
/// keys are kept; Find returns the first. Value type.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;

  JsonValue() = default;
  /// The whole of `text`, without recursion; limits and errors are JsonReader's.
  static Result<JsonValue> Parse(std::string_view text, JsonLimits limits = {});

  JsonKind kind() const { return kind_; }
  bool is(JsonKind kind) const { return kind_ == kind; }
  bool boolean() const { return bool_; }
  /// The number as written.
  const std::string& number_text() const { return text_; }
  /// The number as a double.
  double number() const { return number_; }
  /// The number when it was written without fraction and exponent and fits.
  std::optional<int64_t> integer() const;
  const std::string& string() const { return text_; }
  const Array& array() const { return array_; }
  const Object& object() const { return object_; }
  /// The first member of that name, or null (also when this is no object).
  const JsonValue* Find(std::string_view key) const;
  /// Appends it as JSON, numbers as they were written.
  void AppendTo(std::string* out) const;

 private:
  static Status ParseScalar(JsonReader* reader, JsonKind kind, JsonValue* value);

  JsonKind kind_ = JsonKind::kNull;
  bool bool_ = false;
  double number_ = 0;
  std::string text_;
  Array array_;
  Object object_;
};

/// Appends JSON to a string: the caller's sequence of calls is trusted to be well-formed, commas and
/// colons are put in by the writer. Not thread-safe.
class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(out) {}
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);
  /// Escapes what must be escaped; bytes that are not UTF-8 become U+FFFD, so the output is always JSON.
  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  /// Shortest text that reads back equal; NaN, Infinity, -Infinity bare, as Triton writes them.
  JsonWriter& Double(double value);
  JsonWriter& Float(float value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  /// A flat array of numbers (or bools) in one go: what tensors are written with.
  template <typename T>
  JsonWriter& Numbers(std::span<const T> values);
  /// Text that is JSON already.
  JsonWriter& Raw(std::string_view json);

 private:
  void Separate();
  std::string* out_;
  bool comma_ = false;
};

/// Appends `text` as a JSON string with quotes, as JsonWriter::String does.
void AppendJsonString(std::string* out, std::string_view text);
/// Appends the shortest text that reads back equal (NaN, Infinity, -Infinity bare), always with a
/// fraction or an exponent, so that readers see a floating-point number: 1.0, 1e+20.
void AppendJsonNumber(std::string* out, double value);
void AppendJsonNumber(std::string* out, float value);
/// Appends the values with commas between them, without brackets. For the ten number types of
/// JsonReader::ReadNumbers and bool.
template <typename T>
void AppendJsonNumbers(std::string* out, std::span<const T> values);

template <typename T>
JsonWriter& JsonWriter::Numbers(std::span<const T> values) {
  BeginArray();
  AppendJsonNumbers(out_, values);
  return EndArray();
}

}  // namespace stoker::base
