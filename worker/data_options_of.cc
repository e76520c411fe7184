#include "worker/data_options_of.h"

namespace oarlock {

std::string DataFormatOf(const v1::JobConfig& config) {
  const bool is_told =
      config.has_data_format() || config.pipe_command().empty();
  return is_told ? config.data_format() : "multi_slot";
}

DataOptions DataOptionsOf(const v1::JobConfig& config) {
  DataOptions options;
  const std::string format = DataFormatOf(config);
  options.format = format == "libsvm"       ? DataOptions::Format::kLibsvm
                   : format == "multi_slot" ? DataOptions::Format::kMultiSlot
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
  return options;
}

}  // namespace oarlock
