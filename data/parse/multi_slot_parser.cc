#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/parse/line_parsers.h"
#include "data/parse/text_fields.h"

namespace oarlock::data {
namespace {

class MultiSlotParser : public LineParser {
 public:
  explicit MultiSlotParser(const DataOptions& options)
      : num_dense_(static_cast<size_t>(options.multi_slot_dense_dim)),
        num_slots_(static_cast<size_t>(options.multi_slot_num_slots)),
        feature_dim_(options.sparse_feature_dim) {}

  bool Append(std::string_view line, Batch* batch,
              std::string* reason) override {
    if (!Parse(line, reason)) {
      absl::StrAppend(reason, "; the line should have ", num_dense_,
                      " dense features (--dense_dim) and ", num_slots_,
                      " slots (--num_slots)");
      return false;
    }
    if (!one_each_ || !batch->offsets.empty()) AppendOffsets(batch);
    ++batch->num_examples;
    batch->labels.push_back(label_);
    batch->dense.insert(batch->dense.end(), dense_.begin(), dense_.end());
    batch->keys.insert(batch->keys.end(), keys_.begin(), keys_.end());
    return true;
  }

 private:
  // Fills label_, dense_, keys_, counts_, one_each_.
  bool Parse(std::string_view line, std::string* reason) {
    dense_.clear();
    keys_.clear();
    counts_.clear();
    one_each_ = true;
    NumberScanner scanner(line);
    if (scanner.AtEnd()) {
      *reason = "the line is empty";
      return false;
    }
    if (num_dense_ > 0 && !ParseDense(scanner, reason)) return false;
    for (size_t slot = 0; slot < num_slots_; ++slot) {
      if (!ParseSlot(slot, scanner, reason)) return false;
    }
    // A message starts with the malformed text, so the position is saved first.
    std::string_view at = scanner.Rest();
    uint64_t count = 0;
    uint64_t label = 0;
    if (!scanner.Next(&count) || count != 1 || !scanner.Next(&label) ||
        label > 1) {
      *reason = absl::StrCat("the label is not '1 0' or '1 1' but ", Shown(at));
      return false;
    }
    if (!scanner.AtEnd()) {
      *reason = absl::StrCat(Shown(scanner.Rest()), " follows the label");
      return false;
    }
    label_ = static_cast<float>(label);
    return true;
  }

  bool ParseDense(NumberScanner& scanner, std::string* reason) {
    std::string_view at = scanner.Rest();
    uint64_t count = 0;
    if (!scanner.Next(&count) || count != num_dense_) {
      *reason = absl::StrCat("the dense slot does not start with its count ",
                             num_dense_, " but ", Shown(at));
      return false;
    }
    for (size_t i = 0; i < num_dense_; ++i) {
      at = scanner.Rest();
      float value = 0;
      if (!scanner.Next(&value) || !std::isfinite(value)) {
        *reason = absl::StrCat("dense feature ", i,
                               " is not a finite number but ", Shown(at));
        return false;
      }
      dense_.push_back(value);
    }
    return true;
  }

  bool ParseSlot(size_t slot, NumberScanner& scanner, std::string* reason) {
    uint32_t count = 0;
    if (!scanner.Next(&count)) {
      *reason = absl::StrCat("slot ", slot, " does not start with a count but ",
                             Shown(scanner.Rest()));
      return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t id = 0;
      if (!scanner.Next(&id)) {
        *reason = absl::StrCat("value ", i, " of slot ", slot,
                               " is not an unsigned 64-bit id but ",
                               Shown(scanner.Rest()));
        return false;
      }
      keys_.push_back(Key{feature_dim_ == 0 ? id : id % feature_dim_});
    }
    counts_.push_back(count);
    one_each_ = one_each_ && count == 1;
    return true;
  }

  void AppendOffsets(Batch* batch) {
    if (batch->offsets.empty()) {
      // Until now every slot had one key.
      for (size_t i = 0; i <= batch->num_examples * num_slots_; ++i) {
        batch->offsets.push_back(static_cast<uint32_t>(i));
      }
    }
    for (const uint32_t count : counts_) {
      batch->offsets.push_back(batch->offsets.back() + count);
    }
  }

  const size_t num_dense_;
  const size_t num_slots_;
  const uint64_t feature_dim_;
  // The current example.
  float label_ = 0;
  std::vector<float> dense_;
  std::vector<Key> keys_;
  std::vector<uint32_t> counts_;  // keys of each slot
  bool one_each_ = true;
};

}  // namespace

std::unique_ptr<LineParser> NewMultiSlotParser(const DataOptions& options) {
  return std::make_unique<MultiSlotParser>(options);
}

}  // namespace oarlock::data
