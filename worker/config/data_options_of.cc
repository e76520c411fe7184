#include "worker/config/data_options_of.h"

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "data/batch.h"

namespace oarlock::worker {
namespace {

using Format = data::DataOptions::Format;
using DenseTransform = data::DataOptions::DenseTransform;

// `value` is that of `flag`, where it is set; `all_have` what a line of
// `format` has in any case.
absl::Status CheckShape(absl::string_view flag, bool is_set, int value,
                        Format format, int all_have) {
  if (!is_set || value == all_have) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, " is ", value, ", but a line of --data_format ",
      data::NameOf(format), " always has ", all_have, "; leave --", flag,
      " out, or use --data_format ", data::NameOf(Format::kMultiSlot)));
}

// Text is read from this machine's files alone.
absl::Status CheckArePaths(
    absl::string_view flag,
    const google::protobuf::RepeatedPtrField<std::string>& files,
    Format format) {
  for (const std::string& file : files) {
    const size_t end = file.find("://");
    if (end == std::string::npos || file.find('/') < end) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, " is \"", file, "\", and --data_format is ",
        data::NameOf(format), "; ", file.substr(0, end),
        ":// is read as columns (--data_format parquet, arrow, csv), and text "
        "must be at a path on this machine: mount the store, or copy from it"));
  }
  return absl::OkStatus();
}

DenseTransform DenseTransformOf(const v1::JobConfig& config) {
  for (const DenseTransform transform :
       {DenseTransform::kQuickStart, DenseTransform::kBucket}) {
    if (config.dense_transform() == data::NameOf(transform)) return transform;
  }
  return DenseTransform::kLog1p;
}

}  // namespace

Format DataFormatOf(const v1::JobConfig& config) {
  if (!config.has_data_format() && !config.pipe_command().empty()) {
    return Format::kMultiSlot;
  }
  for (const Format format : {Format::kMultiSlot, Format::kLibsvm}) {
    if (config.data_format() == data::NameOf(format)) return format;
  }
  // What kind of file it is the reader must know.
  for (const char* columnar : {"parquet", "arrow", "csv"}) {
    if (config.data_format() == columnar) return Format::kColumns;
  }
  return Format::kCriteo;
}

absl::StatusOr<data::FeatureList> FeaturesOf(const v1::JobConfig& config) {
  if (config.features().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data_format ", config.data_format(),
                     " has columns, and --features says which of them the "
                     "model reads; name a file of JSON, as docs/data.md has "
                     "it"));
  }
  return data::FeatureList::Parse(config.features());
}

absl::Status TakeFeatures(v1::JobConfig* config) {
  if (config->features().empty()) return absl::OkStatus();
  if (DataFormatOf(*config) != Format::kColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat("--features names columns, and --data_format is ",
                     data::NameOf(DataFormatOf(*config)),
                     "; legal is with --data_format parquet, arrow and csv"));
  }
  std::string json = config->features();
  if (json.find('{') == std::string::npos) {
    std::ifstream file(json);
    std::ostringstream content;
    content << file.rdbuf();
    if (!file) {
      return absl::NotFoundError(
          absl::StrCat("--features names '", json, "', which cannot be read"));
    }
    json = std::move(content).str();
  }
  OARLOCK_ASSIGN_OR_RETURN(const data::FeatureList features,
                           data::FeatureList::Parse(json));
  config->set_features(features.ToJson());
  return absl::OkStatus();
}

absl::Status CheckDataFlags(const v1::JobConfig& config) {
  const Format format = DataFormatOf(config);
  if (format == Format::kColumns) return FeaturesOf(config).status();
  for (const auto& [flag, files] :
       {std::pair("train_files", config.train_files()),
        std::pair("test_files", config.test_files())}) {
    OARLOCK_RETURN_IF_ERROR(CheckArePaths(flag, files, format));
  }
  if (format == Format::kMultiSlot) return absl::OkStatus();
  data::DataOptions options = DataOptionsOf(config);
  // Of the line, not of the batch.
  options.dense_transform = DenseTransform::kLog1p;
  const data::DataSchema line = data::SchemaOf(options);
  OARLOCK_RETURN_IF_ERROR(CheckShape("dense_dim", config.has_dense_dim(),
                                     config.dense_dim(), format,
                                     line.num_dense));
  return CheckShape("num_slots", config.has_num_slots(), config.num_slots(),
                    format, line.num_slots);
}

data::DataOptions DataOptionsOf(const v1::JobConfig& config) {
  data::DataOptions options;
  options.format = DataFormatOf(config);
  options.dense_transform = DenseTransformOf(config);
  options.sparse_feature_dim = config.sparse_feature_dim();
  options.pipe_command = config.pipe_command();
  options.bad_lines_max = config.bad_lines_max();
  options.multi_slot_dense_dim = config.dense_dim();
  options.multi_slot_num_slots = config.num_slots();
  if (options.format == Format::kColumns) {
    // What is not valid is refused elsewhere.
    const auto features = data::FeatureList::Parse(config.features());
    if (features.ok()) options.columns = features->schema();
  }
  return options;
}

}  // namespace oarlock::worker
