#include <algorithm>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/parse/line_parsers.h"
#include "data/parse/text_fields.h"

namespace oarlock::data {
namespace {

class LibsvmParser : public LineParser {
 public:
  explicit LibsvmParser(const DataOptions& options)
      : feature_dim_(options.sparse_feature_dim) {}

  bool Append(std::string_view line, Batch* batch,
              std::string* reason) override {
    if (!Parse(line, reason)) return false;
    if (batch->offsets.empty()) batch->offsets.push_back(0);
    if (!weights_are_one_ && batch->weights.empty()) {
      batch->weights.resize(batch->keys.size(), 1.0f);
    }
    ++batch->num_examples;
    batch->labels.push_back(label_);
    batch->keys.insert(batch->keys.end(), keys_.begin(), keys_.end());
    if (!weights_are_one_ || !batch->weights.empty()) {
      batch->weights.insert(batch->weights.end(), weights_.begin(),
                            weights_.end());
    }
    batch->offsets.push_back(static_cast<uint32_t>(batch->keys.size()));
    return true;
  }

  bool IsComment(std::string_view line) const override {
    const auto first = std::find_if_not(line.begin(), line.end(), IsBlank);
    return first != line.end() && *first == '#';
  }

 private:
  // Fills label_, keys_, weights_ and weights_are_one_.
  bool Parse(std::string_view line, std::string* reason) {
    keys_.clear();
    weights_.clear();
    weights_are_one_ = true;
    rest_ = line.substr(0, line.find('#'));
    std::string_view token = NextToken();
    if (token.empty()) {
      *reason = "the line is empty";
      return false;
    }
    float label = 0;
    if (!Number(token, &label) || (label != 0 && label != 1 && label != -1)) {
      *reason = absl::StrCat("the label is ", Shown(token), ", not 0, 1 or -1");
      return false;
    }
    label_ = label == 1 ? 1.0f : 0.0f;
    for (size_t i = 0; !(token = NextToken()).empty(); ++i) {
      if (i == 0 && token.starts_with("qid:")) continue;
      if (!AddFeature(token, reason)) return false;
    }
    return true;
  }

  bool AddFeature(std::string_view token, std::string* reason) {
    const size_t colon = token.find(':');
    uint64_t index = 0;
    float value = 0;
    if (colon == std::string_view::npos ||
        !Number(token.substr(0, colon), &index) ||
        !Number(token.substr(colon + 1), &value) || !std::isfinite(value)) {
      *reason = absl::StrCat(
          "a feature is ", Shown(token),
          ", not INDEX:VALUE with an unsigned 64-bit index and a finite value");
      return false;
    }
    // A missing feature means 0, so a feature of value 0 is skipped.
    if (value == 0) return true;
    keys_.push_back(Key{feature_dim_ == 0 ? index : index % feature_dim_});
    weights_.push_back(value);
    weights_are_one_ = weights_are_one_ && value == 1;
    return true;
  }

  // Reads all of `text` as a number, which may start with one '+'.
  template <typename T>
  static bool Number(std::string_view text, T* value) {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
      text.remove_prefix(1);
    }
    const char* const end = text.data() + text.size();
    const auto [rest, error] = ReadNumber(text.data(), end, value);
    return error == std::errc() && rest == end;
  }

  // The next word of rest_; empty at its end.
  std::string_view NextToken() {
    size_t begin = 0;
    while (begin < rest_.size() && IsBlank(rest_[begin])) ++begin;
    size_t end = begin;
    while (end < rest_.size() && !IsBlank(rest_[end])) ++end;
    const std::string_view token = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return token;
  }

  const uint64_t feature_dim_;
  std::string_view rest_;  // of the current line
  // The current example.
  float label_ = 0;
  std::vector<Key> keys_;
  std::vector<float> weights_;
  bool weights_are_one_ = true;
};

}  // namespace

std::unique_ptr<LineParser> NewLibsvmParser(const DataOptions& options) {
  return std::make_unique<LibsvmParser>(options);
}

}  // namespace oarlock::data
