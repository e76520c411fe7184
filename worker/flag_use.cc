#include "worker/flag_use.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "worker/data/data_options.h"
#include "worker/data_options_of.h"
#include "worker/models/model.h"

namespace oarlock {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

// `flag` has an effect only where the flag `by`, a string, has one of `values`.
struct FlagUse {
  std::string flag;
  const char* by;
  std::vector<std::string> values;
};

const std::vector<FlagUse>& FlagUses() {
  static const std::vector<FlagUse>& uses = *[] {
    auto* const all = new std::vector<FlagUse>{
        {"staleness_bound", "mode", {"ssp"}},
        {"dense_quorum", "mode", {"async", "half_async", "ssp"}},
        {"dense_staleness_power", "mode", {"async", "half_async", "ssp"}},
        // Where another mode says how old rows are.
        {"row_cache_rows", "mode", {"async", "half_async"}},
        // PlanTables says why geo has none.
        {"dense_interval_steps", "mode", {"async", "half_async", "ssp", "geo"}},
        {"max_unacknowledged_pushes", "mode", {"async", "half_async", "ssp"}},
        {"geo_steps", "mode", {"geo"}},
        {"geo_rows_max", "mode", {"geo"}},

        {"schedule_steps",
         "learning_rate_schedule",
         {"exponential", "polynomial", "cosine", "step"}},
        {"schedule_decay_rate",
         "learning_rate_schedule",
         {"exponential", "step"}},
        {"schedule_end_factor",
         "learning_rate_schedule",
         {"polynomial", "cosine"}},
        {"schedule_power", "learning_rate_schedule", {"polynomial"}},
        {"schedule_pieces", "learning_rate_schedule", {"piecewise"}},

        {"momentum", "optimizer", {"momentum"}},
        {"nesterov", "optimizer", {"momentum"}},
        // The last one's dense tables are adagrad's.
        {"adagrad_initial_accumulator",
         "optimizer",
         {"adagrad", "shared_adagrad", "paddle_adagrad_v2"}},
        {"ftrl_beta", "optimizer", {"ftrl"}},
        {"weight_decay", "optimizer", {"adamw"}},
        {"paddle_initial_g2sum",
         "optimizer",
         {"paddle_adagrad", "paddle_std_adagrad"}},

        {"preload", "dataset", {"memory"}},
        {"dataset_memory_mb", "dataset", {"memory"}},
        {"log_bytes_max", "durability", {"log"}},
        {"log_sync_interval_s", "durability", {"log"}},

        {"admission_count", "admission", {"count"}},
        {"admission_probability", "admission", {"probability"}},
        {"admission_score", "admission", {"show_click"}},
        {"non_click_coefficient", "accessor", {"ctr"}},
        {"click_coefficient", "accessor", {"ctr"}},

        {"early_stop_patience", "early_stop_metric", {"auc", "logloss"}},
        {"early_stop_min_delta", "early_stop_metric", {"auc", "logloss"}},
    };
    for (const ModelFlag& flag : ModelFlags()) {
      all->push_back({flag.flag, "model", flag.models});
    }
    return all;
  }();
  return uses;
}

// `flag` has an effect only where one of `others` is not at its default, which
// is empty or 0: off. --tier_dir is none of them: a server that is started by
// itself (oarlock server) has no --memory_budget_mb, which comes with tables.
struct FlagNeed {
  const char* flag;
  std::vector<const char*> others;
};

const std::vector<FlagNeed>& FlagNeeds() {
  static const std::vector<FlagNeed>& needs = *new std::vector<FlagNeed>{
      {"row_cache_steps", {"row_cache_rows"}},
      {"evict_period_ticks",
       {"evict_idle_ticks", "rows_max", "evict_score_min"}},
      // Which is refused with another accessor than ctr.
      {"statistics_decay_period_ticks", {"statistics_decay_rate"}},
      {"checkpoint_interval_s", {"checkpoint_dir"}},
      {"checkpoint_keep", {"checkpoint_dir"}},
      {"watch_marker", {"watch_dir"}},
      {"watch_idle_s", {"watch_dir"}},
      {"watch_poll_s", {"watch_dir"}},
      {"tensorboard_period_s", {"tensorboard_dir"}},
  };
  return needs;
}

const FieldDescriptor& FieldOf(const std::string& flag) {
  const FieldDescriptor* const field =
      v1::JobConfig::descriptor()->FindFieldByName(flag);
  OARLOCK_CHECK(field != nullptr);
  return *field;
}

std::string TextOf(const v1::JobConfig& config, const FieldDescriptor& field) {
  std::string text;
  TextFormat::PrintFieldValueToString(config, &field, /*index=*/-1, &text);
  return text;
}

bool IsDefault(const v1::JobConfig& config, const FieldDescriptor& field) {
  return TextOf(config, field) ==
         TextOf(v1::JobConfig::default_instance(), field);
}

absl::Status CheckUse(const v1::JobConfig& config, const FlagUse& use) {
  if (IsDefault(config, FieldOf(use.flag))) return absl::OkStatus();
  const std::string value =
      config.GetReflection()->GetString(config, &FieldOf(use.by));
  if (std::find(use.values.begin(), use.values.end(), value) !=
      use.values.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", use.flag, " is set, but --", use.by, " is ", value,
      "; legal is with --", use.by, " ", absl::StrJoin(use.values, ", "),
      "; leave --", use.flag, " out, or change --", use.by));
}

absl::Status CheckNeed(const v1::JobConfig& config, const FlagNeed& need) {
  if (IsDefault(config, FieldOf(need.flag))) return absl::OkStatus();
  std::vector<std::string> off;
  for (const char* other : need.others) {
    const FieldDescriptor& field = FieldOf(other);
    if (!IsDefault(config, field)) return absl::OkStatus();
    const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    off.push_back(absl::StrCat("--", other, is_text ? " is not" : " is 0"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", need.flag, " is set, but ", absl::StrJoin(off, ", "), "; give ",
      off.size() == 1 ? absl::StrCat("--", need.others[0]) : "one of them",
      " as well"));
}

// Update rules here are those of parameter servers, and lars, which is none of
// them, is refused by itself.
absl::Status CheckLars(const v1::JobConfig& config) {
  if (config.optimizer() == "lars") return absl::OkStatus();
  for (const char* flag : {"lars_weight_decay", "lars_coefficient"}) {
    if (IsDefault(config, FieldOf(flag))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, " is set, but --optimizer is ", config.optimizer(),
        "; lars, which reads it, is in collective training only; leave --",
        flag, " out"));
  }
  return absl::OkStatus();
}

// What autoint's hidden layers would read, when it has none.
absl::Status CheckHiddenLayers(const v1::JobConfig& config) {
  if (config.model() != "autoint" || !config.hidden_sizes().empty()) {
    return absl::OkStatus();
  }
  const char* const flag = config.dropout() > 0             ? "--dropout"
                           : config.hidden_norm() != "none" ? "--hidden_norm"
                                                            : nullptr;
  if (flag == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag,
                   " is set, but --model autoint has hidden layers only with "
                   "--hidden_sizes; give --hidden_sizes as well"));
}

absl::Status CheckDenseTransform(const v1::JobConfig& config) {
  const DataOptions::Format format = DataFormatOf(config);
  if (IsDefault(config, FieldOf("dense_transform")) ||
      format == DataOptions::Format::kCriteo) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--dense_transform is set, but --data_format is ", NameOf(format),
      config.has_data_format() ? "" : ", as with any --pipe_command",
      "; legal is with --data_format ",
      NameOf(DataOptions::Format::kCriteo), "; leave --dense_transform at ",
      v1::JobConfig::default_instance().dense_transform(),
      ", or change --data_format"));
}

absl::Status CheckDenseNorm(const v1::JobConfig& config) {
  if (config.dense_norm() == "none") return absl::OkStatus();
  const DataOptions data = DataOptionsOf(config);
  // What is not valid is refused elsewhere.
  if (!data.Validate().ok() || SchemaOf(data).num_dense > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--dense_norm is set, but ",
      data.format == DataOptions::Format::kCriteo
          ? absl::StrCat("--dense_transform is ", config.dense_transform(),
                         ", which makes keys of the dense features")
          : absl::StrCat("--data_format ", NameOf(data.format),
                         " has no dense features here"),
      "; leave --dense_norm out, or train on dense features"));
}

// Programs of Fleet with the data in memory may shuffle by a call.
absl::Status CheckWindow(const v1::JobConfig& config) {
  if (IsDefault(config, FieldOf("shuffle_window_examples")) ||
      config.shuffle() != "none" || config.dataset() == "memory") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--shuffle_window_examples is set, but --shuffle is none; legal is with "
      "--shuffle local, global; leave --shuffle_window_examples out, or change "
      "--shuffle");
}

}  // namespace

absl::Status CheckFlagUse(const v1::JobConfig& config) {
  for (const FlagUse& use : FlagUses()) {
    OARLOCK_RETURN_IF_ERROR(CheckUse(config, use));
  }
  for (const FlagNeed& need : FlagNeeds()) {
    OARLOCK_RETURN_IF_ERROR(CheckNeed(config, need));
  }
  OARLOCK_RETURN_IF_ERROR(CheckLars(config));
  OARLOCK_RETURN_IF_ERROR(CheckHiddenLayers(config));
  OARLOCK_RETURN_IF_ERROR(CheckDenseTransform(config));
  OARLOCK_RETURN_IF_ERROR(CheckDenseNorm(config));
  OARLOCK_RETURN_IF_ERROR(CheckWindow(config));
  if (config.dense_quorum() < 0 && config.dense_quorum() != -1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--dense_quorum is ", config.dense_quorum(),
        "; legal is 0 to 1, a "
        "share of the workers, or -1; leave it out, and it is chosen by the "
        "number of threads"));
  }
  return absl::OkStatus();
}

}  // namespace oarlock
