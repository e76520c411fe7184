// The features of a job, checked and in their order.

#ifndef OARLOCK_DATA_FEATURES_FEATURE_LIST_H_
#define OARLOCK_DATA_FEATURES_FEATURE_LIST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/batch.h"
#include "data/features/feature_key.h"
#include "proto/v1/features.pb.h"

namespace oarlock::data {

// Immutable, so thread-safe. Dense features and slots stand in the order of
// their names, by bytes, whatever order they were given in.
class FeatureList {
 public:
  struct Dense {
    std::string name;
    v1::DenseFeature::Transform transform = v1::DenseFeature::IDENTITY;
    float null = 0;
    bool missing_is_null = false;
  };
  // A sparse feature or a sequence.
  struct Slot {
    std::string name;
    v1::IdType type = v1::AS_IT_IS;
    // 0: the job's.
    uint32_t dim = 0;
    // Whose rows it has: its own name, or that of another slot.
    std::string rows_of;
    // 0: not numbered yet.
    uint32_t number = 0;
    bool is_sequence = false;
    v1::SequenceFeature::Pooling pooling = v1::SequenceFeature::MEAN;
    // 0: no limit.
    uint32_t max_length = 0;
    bool missing_is_null = false;

    // REQUIRES: it is numbered.
    FeatureKeys keys() const { return FeatureKeys(rows_of, number); }
  };

  static constexpr size_t kMaxNameBytes = 256;
  static constexpr uint32_t kMaxDim = 4096;
  static constexpr uint32_t kMaxSequenceLength = 65536;

  // InvalidArgument names the feature, what is wrong, and what is legal.
  static absl::StatusOr<FeatureList> Create(const v1::FeatureList& list);
  // The same of JSON.
  static absl::StatusOr<FeatureList> Parse(const std::string& json);

  const std::string& label() const { return label_; }
  // Empty: there is none.
  const std::string& weight() const { return weight_; }
  const std::string& group() const { return group_; }
  v1::IdType group_type() const { return group_type_; }
  const std::vector<Dense>& dense() const { return dense_; }
  const std::vector<Slot>& slots() const { return slots_; }
  DataSchema schema() const {
    return {static_cast<int>(dense_.size()), static_cast<int>(slots_.size())};
  }
  bool is_numbered() const;
  // One line of JSON, the same for the same features.
  std::string ToJson() const;
  bool has_key_weights() const;
  // What it was made of, in the order of the names.
  const v1::FeatureList& message() const { return message_; }

 private:
  FeatureList() = default;
  absl::Status Add(const v1::Feature& feature);
  absl::Status ResolveShares();

  v1::FeatureList message_;
  std::string label_;
  std::string weight_;
  std::string group_;
  v1::IdType group_type_ = v1::AS_IT_IS;
  std::vector<Dense> dense_;
  std::vector<Slot> slots_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_FEATURES_FEATURE_LIST_H_
