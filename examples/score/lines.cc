#include "examples/score/lines.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

namespace oarlock::score {
namespace {

constexpr size_t kIntegers = 13;
constexpr size_t kCategories = 26;
constexpr size_t kMaxDigits = 18;
constexpr double kMin[kIntegers] = {0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
constexpr double kDiff[kIntegers] = {20, 603, 100, 50, 64000, 500, 100,
                                     50, 500, 10,  10, 10,    50};

uint64_t KeyOf(const InputSpec& spec, std::string_view text, uint64_t slot) {
  const uint64_t hash = XXH64(text.data(), text.size(), slot);
  return spec.feature_dim == 0 ? hash : hash % spec.feature_dim;
}

std::vector<std::string_view> Split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(separator, begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

struct Integer {
  bool missing = true;
  int64_t value = 0;
};

bool ParseInteger(std::string_view text, Integer* integer) {
  *integer = {};
  if (text.empty()) return true;
  const size_t digits = text.size() - (text[0] == '-');
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), integer->value);
  integer->missing = false;
  return error == std::errc() && rest == text.data() + text.size() &&
         digits <= kMaxDigits;
}

std::string BucketText(const Integer& x) {
  if (x.missing) return "";
  if (x.value <= 2) return "SP" + std::to_string(x.value);
  const double log_x = std::log(static_cast<double>(x.value));
  return std::to_string(static_cast<int64_t>(log_x * log_x));
}

float Dense(const InputSpec& spec, size_t column, const Integer& x) {
  const double value = static_cast<double>(x.value);
  if (spec.dense_transform == "log1p") {
    return static_cast<float>(std::log1p(std::max(value, 0.0)));
  }
  if (x.missing) return 0;
  return static_cast<float>((value - kMin[column]) / kDiff[column]);
}

bool ParseCriteo(const InputSpec& spec, std::string_view line, bool has_label,
                 Example* example, std::string* reason) {
  std::vector<std::string_view> fields = Split(line, '\t');
  const size_t expected = has_label + kIntegers + kCategories;
  if (fields.size() != expected) {
    *reason = std::to_string(fields.size()) + " fields, not " +
              std::to_string(expected);
    return false;
  }
  if (has_label) {
    if (fields[0] != "0" && fields[0] != "1") {
      *reason = "the label is not 0 or 1";
      return false;
    }
    fields.erase(fields.begin());
  }
  Integer integers[kIntegers];
  for (size_t i = 0; i < kIntegers; ++i) {
    if (ParseInteger(fields[i], &integers[i])) continue;
    *reason = "an integer is none";
    return false;
  }
  for (size_t slot = 0; slot < kCategories; ++slot) {
    example->keys.push_back({KeyOf(spec, fields[kIntegers + slot], slot)});
  }
  for (size_t i = 0; i < kIntegers; ++i) {
    if (spec.dense_transform == "bucket") {
      example->keys.push_back(
          {KeyOf(spec, BucketText(integers[i]), kCategories + i)});
    } else {
      example->dense.push_back(Dense(spec, i, integers[i]));
    }
  }
  return true;
}

// A fraction nearer to 0 than floats are is the nearest one, at last 0.
std::from_chars_result ReadNumber(const char* begin, const char* end,
                                  float* value) {
  const std::from_chars_result read = std::from_chars(begin, end, *value);
  if (read.ec != std::errc::result_out_of_range) return read;
  // Too large is infinite, too small 0.
  const std::string text(begin, read.ptr);
  const double wide = std::strtod(text.c_str(), nullptr);
  if (std::abs(wide) >= 1) return read;
  *value = static_cast<float>(wide);
  return {read.ptr, std::errc()};
}
std::from_chars_result ReadNumber(const char* begin, const char* end,
                                  uint64_t* value) {
  return std::from_chars(begin, end, *value);
}

// Takes numbers off the front of a line.
class Scanner {
 public:
  explicit Scanner(std::string_view line) : rest_(line) {}

  template <typename T>
  bool Next(T* value) {
    SkipBlanks();
    const char* const end = rest_.data() + rest_.size();
    const auto [p, error] = ReadNumber(rest_.data(), end, value);
    if (error != std::errc() || (p != end && *p != ' ' && *p != '\t')) {
      return false;
    }
    rest_.remove_prefix(static_cast<size_t>(p - rest_.data()));
    return true;
  }
  bool AtEnd() {
    SkipBlanks();
    return rest_.empty();
  }

 private:
  void SkipBlanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
  }

  std::string_view rest_;
};

bool ParseMultiSlot(const InputSpec& spec, std::string_view line,
                    bool has_label, Example* example, std::string* reason) {
  *reason = "the line has other slots than the model";
  Scanner scanner(line);
  uint64_t count = 0;
  if (spec.num_dense > 0) {
    if (!scanner.Next(&count) || count != spec.num_dense) return false;
    example->dense.resize(count);
    for (float& x : example->dense) {
      if (!scanner.Next(&x) || !std::isfinite(x)) return false;
    }
  }
  example->keys.resize(spec.num_slots);
  for (std::vector<uint64_t>& keys : example->keys) {
    if (!scanner.Next(&count)) return false;
    for (; count > 0; --count) {
      uint64_t id = 0;
      if (!scanner.Next(&id)) return false;
      keys.push_back(spec.feature_dim == 0 ? id : id % spec.feature_dim);
    }
  }
  uint64_t label = 0;
  if (has_label && (!scanner.Next(&count) || count != 1 ||
                    !scanner.Next(&label) || label > 1)) {
    return false;
  }
  return scanner.AtEnd();
}

// All of `text` as a number; one '+' may stand in front.
template <typename T>
bool IsNumber(std::string_view text, T* value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  const char* const end = text.data() + text.size();
  const auto [rest, error] = ReadNumber(text.data(), end, value);
  return error == std::errc() && rest == end;
}

// One slot; values are the weights of its keys.
bool ParseLibsvm(const InputSpec& spec, std::string_view line, bool has_label,
                 Example* example, std::string* reason) {
  *reason =
      "a word is not what it must be: a label 0, 1 or -1, then "
      "INDEX:VALUE";
  std::vector<std::string_view> words;
  const size_t comment = line.find('#');
  line = line.substr(0, comment);
  for (size_t begin = 0; (begin = line.find_first_not_of(" \t", begin)) !=
                         std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  if (comment != std::string_view::npos && words.empty()) {
    *reason = "the line is only a comment";
    return false;
  }
  size_t next = 0;
  if (has_label) {
    float label = 0;
    if (words.empty() || !IsNumber(words[next++], &label) ||
        (label != 0 && label != 1 && label != -1)) {
      return false;
    }
  }
  if (next < words.size() && words[next].starts_with("qid:")) ++next;
  std::vector<uint64_t>& keys = example->keys.emplace_back();
  std::vector<float>& weights = example->weights.emplace_back();
  for (; next < words.size(); ++next) {
    const size_t colon = words[next].find(':');
    uint64_t index = 0;
    float value = 0;
    if (colon == std::string_view::npos ||
        !IsNumber(words[next].substr(0, colon), &index) ||
        !IsNumber(words[next].substr(colon + 1), &value) ||
        !std::isfinite(value)) {
      return false;
    }
    if (value == 0) continue;
    keys.push_back(spec.feature_dim == 0 ? index : index % spec.feature_dim);
    weights.push_back(value);
  }
  return true;
}

using LineFunction = bool (*)(const InputSpec& spec, std::string_view line,
                              bool has_label, Example* example,
                              std::string* reason);

// Null: not known.
LineFunction FindLineFunction(const std::string& format) {
  return format == "criteo"       ? ParseCriteo
         : format == "multi_slot" ? ParseMultiSlot
         : format == "libsvm"     ? ParseLibsvm
                                  : nullptr;
}

}  // namespace

bool KnowsFormat(const std::string& format) {
  return FindLineFunction(format) != nullptr;
}

bool ParseLine(const InputSpec& spec, std::string_view line, bool has_label,
               Example* example, std::string* reason) {
  *example = {};
  return FindLineFunction(spec.format)(spec, line, has_label, example, reason);
}

}  // namespace oarlock::score
