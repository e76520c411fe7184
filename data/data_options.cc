#include "data/data_options.h"

#include "absl/strings/str_cat.h"

namespace oarlock::data {

absl::Status DataOptions::Validate() const {
  if (bad_lines_max < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bad_lines_max is ", bad_lines_max,
        "; legal is 0 or more (0: the first malformed line ends the run)"));
  }
  if (format != Format::kMultiSlot) return absl::OkStatus();
  if (multi_slot_dense_dim < 0 || multi_slot_dense_dim > kMaxDense) {
    return absl::InvalidArgumentError(
        absl::StrCat("multi_slot_dense_dim is ", multi_slot_dense_dim,
                     "; legal is 0 to ", kMaxDense));
  }
  if (multi_slot_num_slots < 0 || multi_slot_num_slots > kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("multi_slot_num_slots is ", multi_slot_num_slots,
                     "; legal is 0 to ", kMaxSlots));
  }
  if (multi_slot_dense_dim + multi_slot_num_slots == 0) {
    return absl::InvalidArgumentError(
        "multi_slot_dense_dim and multi_slot_num_slots are both 0; an example "
        "needs at least one feature");
  }
  return absl::OkStatus();
}

absl::string_view NameOf(DataOptions::Format format) {
  return format == DataOptions::Format::kCriteo      ? "criteo"
         : format == DataOptions::Format::kMultiSlot ? "multi_slot"
         : format == DataOptions::Format::kLibsvm    ? "libsvm"
                                                     : "parquet";
}

absl::string_view NameOf(DataOptions::DenseTransform transform) {
  return transform == DataOptions::DenseTransform::kQuickStart ? "quick_start"
         : transform == DataOptions::DenseTransform::kBucket   ? "bucket"
                                                               : "log1p";
}

DataSchema SchemaOf(const DataOptions& options) {
  if (options.format == DataOptions::Format::kColumns) return options.columns;
  if (options.format == DataOptions::Format::kMultiSlot) {
    return {.num_dense = options.multi_slot_dense_dim,
            .num_slots = options.multi_slot_num_slots};
  }
  if (options.format == DataOptions::Format::kLibsvm) {
    return {.num_dense = 0, .num_slots = 1};
  }
  if (options.dense_transform == DataOptions::DenseTransform::kBucket) {
    return {.num_dense = 0, .num_slots = kCriteoCategories + kCriteoIntegers};
  }
  return {.num_dense = kCriteoIntegers, .num_slots = kCriteoCategories};
}

}  // namespace oarlock::data
