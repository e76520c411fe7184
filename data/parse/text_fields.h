// Functions that parsers of lines share: numbers between blanks, and text for
// messages.

#ifndef OARLOCK_DATA_PARSE_TEXT_FIELDS_H_
#define OARLOCK_DATA_PARSE_TEXT_FIELDS_H_

#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace oarlock::data {

// A field as messages show it: printable and short.
inline std::string Shown(std::string_view text) {
  constexpr size_t kShownBytes = 40;
  return absl::StrCat(
      "'", absl::CHexEscape(std::string(text.substr(0, kShownBytes))),
      text.size() > kShownBytes ? "...'" : "'");
}

inline bool HasNul(std::string_view line) {
  return std::memchr(line.data(), 0, line.size()) != nullptr;
}

// As std::from_chars, except for a fraction that is nearer to 0 than floats of
// full precision. It is no error: *value becomes the nearest float, which may
// be 0.
template <typename T>
std::from_chars_result ReadNumber(const char* begin, const char* end,
                                  T* value) {
  const std::from_chars_result read = std::from_chars(begin, end, *value);
  if constexpr (std::is_floating_point_v<T>) {
    if (read.ec == std::errc::result_out_of_range) {
      double wide = 0;
      // absl::from_chars gives the largest double for a number too large even
      // for double, and 0 for one too small.
      absl::from_chars(begin, end, wide);
      if (std::abs(wide) < 1) {
        *value = static_cast<T>(wide);
        return {read.ptr, std::errc()};
      }
    }
  }
  return read;
}

inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// Reads the numbers of a line one after the other, from its front.
class NumberScanner {
 public:
  explicit NumberScanner(std::string_view line)
      : p_(line.data()), end_(line.data() + line.size()) {}

  // False when the next word is not such a number.
  template <typename T>
  bool Next(T* value) {
    SkipBlanks();
    const auto [rest, error] = ReadNumber(p_, end_, value);
    if (error != std::errc() || (rest != end_ && !IsBlank(*rest))) return false;
    p_ = rest;
    return true;
  }

  bool AtEnd() {
    SkipBlanks();
    return p_ == end_;
  }

  // The rest of the line, from the next word on.
  std::string_view Rest() {
    SkipBlanks();
    return {p_, static_cast<size_t>(end_ - p_)};
  }

 private:
  void SkipBlanks() {
    while (p_ != end_ && IsBlank(*p_)) ++p_;
  }

  const char* p_;
  const char* const end_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_PARSE_TEXT_FIELDS_H_
