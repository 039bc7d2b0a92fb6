#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker::base {

namespace internal {
/// One argument of StrCat as text. Numbers are printed shortest-round-trip, bools as true/false.
class Piece {
 public:
  Piece(std::string_view text) : text_(text) {}                    // NOLINT: implicit by design
  Piece(const std::string& text) : text_(text) {}                  // NOLINT
  Piece(const char* text) : text_(text == nullptr ? "" : text) {}  // NOLINT
  Piece(bool value) : text_(value ? "true" : "false") {}           // NOLINT
  Piece(char value) : text_(buffer_, 1) { buffer_[0] = value; }    // NOLINT
  template <typename N>
  requires((std::integral<N> || std::floating_point<N>)&&!std::same_as<N, bool> && !std::same_as<N, char>)
      Piece(N value) {  // NOLINT
    auto [end, error] = std::to_chars(buffer_, buffer_ + sizeof(buffer_), value);
    text_ = {buffer_, static_cast<size_t>(end - buffer_)};
    static_cast<void>(error);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  std::string_view text() const { return text_; }

 private:
  char buffer_[32];
  std::string_view text_;
};
std::string Concatenate(const std::string_view* pieces, size_t count);
void AppendPieces(std::string* out, const std::string_view* pieces, size_t count);
}  // namespace internal

/// The arguments (text, numbers, bools) as one string; the project's way to format a message.
template <typename... Args>
std::string StrCat(const Args&... args) {
  return [](const auto&... piece) {
    const std::string_view views[] = {piece.text()..., std::string_view()};
    return internal::Concatenate(views, sizeof...(piece));
  }(internal::Piece(args)...);
}

/// Appends the arguments to `out`.
template <typename... Args>
void StrAppend(std::string* out, const Args&... args) {
  [out](const auto&... piece) {
    const std::string_view views[] = {piece.text()..., std::string_view()};
    internal::AppendPieces(out, views, sizeof...(piece));
  }(internal::Piece(args)...);
}

/// A double-quoted, escaped and length-limited (200 bytes) rendering of outside text for messages.
std::string Quoted(std::string_view text);
/// The same, cut after that many bytes of the text.
std::string Quoted(std::string_view text, size_t bytes_max);

}  // namespace stoker::base
