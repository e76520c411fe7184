// One line of text becomes one example of a batch.
//
// Criteo: label \t I1..I13 \t C1..C26. The label is 0 or 1; an integer is
// empty (missing) or decimal with at most 18 digits; a category is any text
// without tab, newline and NUL, empty included. Category column s (0-based) is
// slot s with the key FeatureHash(text, s, sparse_feature_dim), see
// base/mix.h.
//
// Transforms of integer column i (0-based):
//   kQuickStart  (x - min[i]) / diff[i], the constants below, which are those
//                of criteo_reader.py in PaddlePaddle's CTR-DNN quick start
//   kLog1p       log(1 + max(x, 0))
//   kBucket      slot 26 + i, key FeatureHash(BucketText, 26 + i, dim)
//
// Multi-slot: numbers between blanks. Each slot is a count, followed by that
// number of values. First comes the dense slot (count = multi_slot_dense_dim;
// omitted when that is 0). Then come the categorical slots: any count, 0
// included, of unsigned 64-bit ids; key = id modulo sparse_feature_dim. The
// last slot is the label ("1 0" or "1 1").
//
// libsvm: words between blanks. First comes the label (0, 1 or -1, which means
// 0), then optionally "qid:...", which is skipped, then any number of
// INDEX:VALUE in any order. All are keys (index modulo sparse_feature_dim) of
// the only slot, each with its value as its weight. A feature of value 0 is
// ignored. The line is a comment from '#' on. A line that is only a comment is
// not an example, and not malformed.

#ifndef OARLOCK_DATA_PARSE_LINE_PARSER_H_
#define OARLOCK_DATA_PARSE_LINE_PARSER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/batch.h"
#include "data/data_options.h"

namespace oarlock::data {

inline constexpr double kQuickStartMin[kCriteoIntegers] = {0, -3, 0, 0, 0, 0, 0,
                                                           0, 0,  0, 0, 0, 0};
inline constexpr double kQuickStartDiff[kCriteoIntegers] = {
    20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50};

// The text that kBucket hashes, as libffm's Criteo scripts write it. It is
// floor(log(x)^2) for x > 2 ("1" for 3), "SP" followed by x for x <= 2
// ("SP-1"), and empty for a missing value.
std::string BucketText(std::optional<int64_t> x);

// Thread-compatible; one per reader.
class LineParser {
 public:
  virtual ~LineParser() = default;
  // Appends the example in `line` (no newline at its end) to labels, dense,
  // keys, offsets, weights and num_examples of `batch`, and returns true.
  // Returns false for a malformed line: `batch` is unchanged, and `reason` says
  // what is wrong, in one line.
  virtual bool Append(std::string_view line, Batch* batch,
                      std::string* reason) = 0;
  // Whether the line is only a comment. Append refuses it like a malformed
  // line, but readers do not count it as one.
  virtual bool IsComment(std::string_view line) const { return false; }
};

// `options` must be valid.
std::unique_ptr<LineParser> NewLineParser(const DataOptions& options);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_PARSE_LINE_PARSER_H_
