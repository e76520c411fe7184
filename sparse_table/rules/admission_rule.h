// Which keys get a row.
//
// A key that has none is looked at once per push that names it:
//
//   always      it is admitted.
//   count       it is admitted at its push number n, as a CountSketch counts
//               them: not later, if the sketch was not halved meanwhile, and
//               more than one push early with a probability of at most 1.8 %.
//   probability it is admitted when
//                 RandomUniform(DeriveSeed(... DeriveSeed(seed, worker) ...,
//                 sequence), key) < p
//               with seed that of the table, worker and sequence those of the
//               push's stamps, one after the other: the same in every run.
//   show_click  it is admitted when the scores of its pushes reach a threshold,
//               as a CountSketch adds them up in units of threshold / 1024: too
//               early by more than 17 % of it with a probability of at most
//               1.8 %.
//
// The sketch belongs to the key's partition.

#ifndef OARLOCK_SPARSE_TABLE_RULES_ADMISSION_RULE_H_
#define OARLOCK_SPARSE_TABLE_RULES_ADMISSION_RULE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "proto/v1/table.pb.h"
#include "sparse_table/rules/count_sketch.h"

namespace oarlock::sparse_table {

// Immutable, hence thread-safe.
class AdmissionRule {
 public:
  enum class Kind { kAlways, kCount, kProbability, kShowClick };

  // Of all partitions together.
  static constexpr uint64_t kDefaultSketchBytes = uint64_t{64} << 20;
  static constexpr uint64_t kMinSketchBytes = 1024;
  static constexpr uint64_t kMaxSketchBytes = uint64_t{1} << 30;
  // The threshold of show_click in units of the sketch.
  static constexpr uint32_t kScoreUnits = 1024;

  // InvalidArgument when a field is out of range, or show_click is asked for
  // without accessor CTR.
  static absl::StatusOr<AdmissionRule> Create(const v1::TableConfig& config,
                                              int partition_bits);

  Kind kind() const { return kind_; }
  // What a partition needs; null when it needs nothing.
  std::unique_ptr<CountSketch> NewSketch() const;

  // What all draws of one push begin with.
  uint64_t DrawsOf(absl::Span<const PushStamp> stamps) const;
  // Whether `key`, which has no row, gets one by a push that adds `score` to
  // it. `draws` is that of the push, `sketch` the partition's.
  bool Admit(uint64_t draws, Key key, uint64_t mix, float score,
             CountSketch* sketch) const;

 private:
  AdmissionRule() = default;

  Kind kind_ = Kind::kAlways;
  uint64_t seed_ = 0;
  float probability_ = 1;
  // In what the sketch counts.
  uint32_t threshold_ = 1;
  // Sketch units of a score of 1.
  float units_per_score_ = 0;
  uint32_t sketch_width_ = 0;
  uint64_t sketch_sum_max_ = 0;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_RULES_ADMISSION_RULE_H_
