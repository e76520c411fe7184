// What parsers of lines share: numbers between blanks, and text for messages.

#ifndef OARLOCK_WORKER_DATA_TEXT_FIELDS_H_
#define OARLOCK_WORKER_DATA_TEXT_FIELDS_H_

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace oarlock {

// What a reader of the log should see of a field: printable, and short.
inline std::string Shown(std::string_view text) {
  constexpr size_t kShownBytes = 40;
  return absl::StrCat(
      "'", absl::CHexEscape(std::string(text.substr(0, kShownBytes))),
      text.size() > kShownBytes ? "...'" : "'");
}

inline bool HasNul(std::string_view line) {
  return std::memchr(line.data(), 0, line.size()) != nullptr;
}

inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// Takes one number after the other off the front of a line.
class NumberScanner {
 public:
  explicit NumberScanner(std::string_view line)
      : p_(line.data()), end_(line.data() + line.size()) {}

  // False when what comes next is no such number.
  template <typename T>
  bool Next(T* value) {
    SkipBlanks();
    const auto [rest, error] = std::from_chars(p_, end_, *value);
    if (error != std::errc() || (rest != end_ && !IsBlank(*rest))) return false;
    p_ = rest;
    return true;
  }

  bool AtEnd() {
    SkipBlanks();
    return p_ == end_;
  }

  std::string_view Rest() const { return {p_, static_cast<size_t>(end_ - p_)}; }

 private:
  void SkipBlanks() {
    while (p_ != end_ && IsBlank(*p_)) ++p_;
  }

  const char* p_;
  const char* const end_;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_DATA_TEXT_FIELDS_H_
