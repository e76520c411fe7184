#include "worker/data_options_of.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "worker/data/batch.h"

namespace oarlock {
namespace {

constexpr char kMultiSlot[] = "multi_slot";
constexpr char kLibsvm[] = "libsvm";

// `value` is that of `flag`, where it is set; `all_have` what a line of
// `format` has in any case.
absl::Status CheckShape(absl::string_view flag, bool is_set, int value,
                        absl::string_view format, int all_have) {
  if (!is_set || value == all_have) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, " is ", value, ", but a line of --data_format ", format,
      " always has ", all_have, "; leave --", flag,
      " out, or use --data_format ", kMultiSlot));
}

}  // namespace

std::string DataFormatOf(const v1::JobConfig& config) {
  const bool is_told =
      config.has_data_format() || config.pipe_command().empty();
  return is_told ? config.data_format() : kMultiSlot;
}

absl::Status CheckDataFlags(const v1::JobConfig& config) {
  const std::string format = DataFormatOf(config);
  if (format == kMultiSlot) return absl::OkStatus();
  DataOptions options = DataOptionsOf(config);
  // Of the line, not of the batch.
  options.dense_transform = DataOptions::DenseTransform::kLog1p;
  const DataSchema line = SchemaOf(options);
  OARLOCK_RETURN_IF_ERROR(CheckShape("dense_dim", config.has_dense_dim(),
                                     config.dense_dim(), format,
                                     line.num_dense));
  return CheckShape("num_slots", config.has_num_slots(), config.num_slots(),
                    format, line.num_slots);
}

DataOptions DataOptionsOf(const v1::JobConfig& config) {
  DataOptions options;
  const std::string format = DataFormatOf(config);
  options.format = format == kLibsvm      ? DataOptions::Format::kLibsvm
                   : format == kMultiSlot ? DataOptions::Format::kMultiSlot
                                          : DataOptions::Format::kCriteo;
  options.dense_transform =
      config.dense_transform() == "quick_start"
          ? DataOptions::DenseTransform::kQuickStart
      : config.dense_transform() == "bucket"
          ? DataOptions::DenseTransform::kBucket
          : DataOptions::DenseTransform::kLog1p;
  options.sparse_feature_dim = config.sparse_feature_dim();
  options.pipe_command = config.pipe_command();
  options.bad_lines_max = config.bad_lines_max();
  options.multi_slot_dense_dim = config.dense_dim();
  options.multi_slot_num_slots = config.num_slots();
  return options;
}

}  // namespace oarlock
