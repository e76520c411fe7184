// Lines of text to what a model reads (docs/data.md).

#ifndef OARLOCK_EXAMPLES_SCORE_LINES_H_
#define OARLOCK_EXAMPLES_SCORE_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace oarlock::score {

struct InputSpec {
  std::string format;           // "criteo", "multi_slot", "libsvm"
  std::string dense_transform;  // of criteo: "log1p", "quick_start", "bucket"
  size_t num_dense = 0;
  size_t num_slots = 0;
  uint64_t feature_dim = 0;
};

struct Example {
  std::vector<float> dense;
  // Of each slot.
  std::vector<std::vector<uint64_t>> keys;
  // What the keys' rows are multiplied by, of each slot; empty: all 1.
  std::vector<std::vector<float>> weights;
};

// Whether ParseLine reads lines of this format.
bool KnowsFormat(const std::string& format);

// False when the line, without its end, is malformed; `reason` says why.
// REQUIRES: a known format.
bool ParseLine(const InputSpec& spec, std::string_view line, bool has_label,
               Example* example, std::string* reason);

}  // namespace oarlock::score

#endif  // OARLOCK_EXAMPLES_SCORE_LINES_H_
