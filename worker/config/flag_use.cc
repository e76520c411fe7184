#include "worker/config/flag_use.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "data/data_options.h"
#include "models/model.h"
#include "worker/config/data_options_of.h"

namespace oarlock::worker {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

// `flag` has an effect only where the flag `by`, a string, has one of `values`.
struct FlagUse {
  std::string flag;
  const char* by;
  std::vector<std::string> values;
  // Ends the list of `values` where they alone would be refused as well.
  const char* with = "";
};

std::vector<FlagUse> UsesByMode() {
  // Gradients are applied as they come.
  const std::vector<std::string> no_rounds = {"async", "half_async", "ssp"};
  // Servers of geo add what workers have changed as it is, every --geo_steps.
  const std::vector<std::string> no_geo = {"async", "half_async", "ssp",
                                           "sync"};
  return {
      {"staleness_bound", "mode", {"ssp"}},
      {"dense_quorum", "mode", no_rounds},
      {"dense_staleness_power", "mode", no_rounds},
      {"dense_interval_steps", "mode", no_rounds},
      {"max_unacknowledged_pushes", "mode", no_rounds},
      // Where no other mode says how old rows are.
      {"row_cache_rows", "mode", {"async", "half_async"}},
      {"row_cache_steps",
       "mode",
       {"async", "half_async"},
       " and --row_cache_rows"},
      {"geo_steps", "mode", {"geo"}},
      {"geo_rows_max", "mode", {"geo"}},
      {"push_format", "mode", no_geo},
      {"divide_by_show", "mode", no_geo, " and --accessor ctr"},
      {"admission", "mode", no_geo},
      {"admission_count", "mode", no_geo, " and --admission count"},
      {"admission_probability", "mode", no_geo, " and --admission probability"},
      {"admission_score", "mode", no_geo,
       " and --admission show_click, --accessor ctr"},
      {"evict_idle_ticks", "mode", no_geo},
      {"rows_max", "mode", no_geo},
      {"evict_score_min", "mode", no_geo, " and --accessor ctr"},
      {"evict_period_ticks", "mode", no_geo,
       " and --evict_idle_ticks or --rows_max"},
  };
}

std::vector<FlagUse> UsesByOthers() {
  const std::vector<std::string> columnar = {"parquet", "arrow", "csv"};
  return {
      {"schedule_steps",
       "learning_rate_schedule",
       {"exponential", "polynomial", "cosine", "step"}},
      {"schedule_decay_rate",
       "learning_rate_schedule",
       {"exponential", "step"},
       " and --schedule_steps"},
      {"schedule_end_factor",
       "learning_rate_schedule",
       {"polynomial", "cosine"},
       " and --schedule_steps"},
      {"schedule_power",
       "learning_rate_schedule",
       {"polynomial"},
       " and --schedule_steps"},
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
      {"python", "data_format", columnar},
      {"read_timeout_s", "data_format", columnar},
      {"reader_memory_mb", "data_format", columnar},
      {"prepare", "data_format", columnar},
      {"shuffle_groups", "data_format", columnar,
       " and --shuffle local, global"},
      {"shuffle_groups", "shuffle", {"local", "global"}, " and columnar files"},
      {"log_bytes_max",
       "durability",
       {"log"},
       " and --checkpoint_dir, of a job with servers"},
      {"log_sync_interval_s",
       "durability",
       {"log"},
       " and --checkpoint_dir, of a job with servers"},

      {"admission_count", "admission", {"count"}},
      {"admission_probability", "admission", {"probability"}},
      {"admission_score", "admission", {"show_click"}, " and --accessor ctr"},
      {"non_click_coefficient", "accessor", {"ctr"}},
      {"click_coefficient", "accessor", {"ctr"}},

      {"early_stop_patience",
       "early_stop_metric",
       {"auc", "logloss"},
       " and --test_files"},
      {"early_stop_min_delta",
       "early_stop_metric",
       {"auc", "logloss"},
       " and --test_files"},
  };
}

const std::vector<FlagUse>& FlagUses() {
  static const std::vector<FlagUse>& uses = *[] {
    auto* const all = new std::vector<FlagUse>(UsesByMode());
    for (FlagUse& use : UsesByOthers()) all->push_back(std::move(use));
    for (const models::ModelFlag& flag : models::ModelFlags()) {
      const bool is_of_hidden_layers =
          flag.flag == "dropout" || flag.flag == "hidden_norm";
      all->push_back({flag.flag, "model", flag.models,
                      is_of_hidden_layers
                          ? " (autoint has hidden layers with --hidden_sizes)"
                          : ""});
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
  // What to give, where that is not `others` alone.
  const char* advice = "";
};

constexpr char kCheckpointDir[] = "--checkpoint_dir to a job with servers";

const std::vector<FlagNeed>& FlagNeeds() {
  static const std::vector<FlagNeed>& needs = *new std::vector<FlagNeed>{
      {"row_cache_steps", {"row_cache_rows"}},
      {"evict_period_ticks",
       {"evict_idle_ticks", "rows_max", "evict_score_min"},
       "--evict_idle_ticks, --rows_max, or --evict_score_min with --accessor "
       "ctr"},
      {"statistics_decay_period_ticks",
       {"statistics_decay_rate"},
       "--statistics_decay_rate with --accessor ctr"},
      {"checkpoint_interval_s", {"checkpoint_dir"}, kCheckpointDir},
      {"checkpoint_keep", {"checkpoint_dir"}, kCheckpointDir},
      {"on_checkpoint", {"checkpoint_dir"}, kCheckpointDir},
      {"on_checkpoint_timeout_s", {"on_checkpoint"}},
      {"watch_marker", {"watch_dir"}, "--watch_dir in place of --train_files"},
      {"watch_folder_marker",
       {"watch_dir"},
       "--watch_dir in place of --train_files"},
      {"watch_idle_s", {"watch_dir"}, "--watch_dir in place of --train_files"},
      {"watch_poll_s", {"watch_dir"}, "--watch_dir in place of --train_files"},
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

// As a command line has it.
std::string ValueOf(const v1::JobConfig& config, const std::string& flag) {
  const FieldDescriptor& field = FieldOf(flag);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return config.GetReflection()->GetString(config, &field);
  }
  std::string text;
  TextFormat::PrintFieldValueToString(config, &field, /*index=*/-1, &text);
  return text;
}

std::string DefaultOf(const std::string& flag) {
  return ValueOf(v1::JobConfig::default_instance(), flag);
}

bool IsDefault(const v1::JobConfig& config, const std::string& flag) {
  return ValueOf(config, flag) == DefaultOf(flag);
}

// "--shuffle is none", "--watch_dir is empty".
std::string Saying(const v1::JobConfig& config, const std::string& flag) {
  const std::string value = ValueOf(config, flag);
  return absl::StrCat("--", flag, " is ", value.empty() ? "empty" : value);
}

// That `flag` has no effect, and why. Left at its default it undoes what a file
// says, too; `advice` is what else there is to do, or empty.
absl::Status WithoutEffect(const v1::JobConfig& config, const std::string& flag,
                           const std::string& why, const std::string& advice) {
  const std::string value = DefaultOf(flag);
  return absl::InvalidArgumentError(
      absl::StrCat(Saying(config, flag), ", but ", why, "; leave it ",
                   value.empty() ? "empty" : absl::StrCat("at ", value),
                   advice.empty() ? "" : ", or ", advice));
}

absl::Status CheckUse(const v1::JobConfig& config, const FlagUse& use) {
  if (IsDefault(config, use.flag)) return absl::OkStatus();
  const std::string value = ValueOf(config, use.by);
  if (std::find(use.values.begin(), use.values.end(), value) !=
      use.values.end()) {
    return absl::OkStatus();
  }
  return WithoutEffect(
      config, use.flag,
      absl::StrCat(Saying(config, use.by), "; legal is with --", use.by, " ",
                   absl::StrJoin(use.values, ", "), use.with),
      absl::StrCat("change --", use.by));
}

absl::Status CheckNeed(const v1::JobConfig& config, const FlagNeed& need) {
  if (IsDefault(config, need.flag)) return absl::OkStatus();
  std::vector<std::string> off;
  for (const char* other : need.others) {
    if (!IsDefault(config, other)) return absl::OkStatus();
    off.push_back(Saying(config, other));
  }
  return WithoutEffect(
      config, need.flag, absl::StrJoin(off, ", "),
      absl::StrCat("give ", *need.advice == '\0'
                                ? absl::StrCat("--", need.others[0])
                                : need.advice));
}

// Update rules here are those of parameter servers, and lars, which is none of
// them, is refused by itself.
absl::Status CheckLars(const v1::JobConfig& config) {
  for (const char* flag : {"lars_weight_decay", "lars_coefficient"}) {
    if (IsDefault(config, flag)) continue;
    return WithoutEffect(
        config, flag,
        absl::StrCat(Saying(config, "optimizer"),
                     ", and lars, which reads it, is in collective training "
                     "only"),
        "");
  }
  return absl::OkStatus();
}

// What autoint's hidden layers would read, when it has none.
absl::Status CheckHiddenLayers(const v1::JobConfig& config) {
  if (config.model() != "autoint" || !config.hidden_sizes().empty()) {
    return absl::OkStatus();
  }
  for (const char* flag : {"dropout", "hidden_norm"}) {
    if (IsDefault(config, flag)) continue;
    return WithoutEffect(
        config, flag,
        "--model autoint has hidden layers only with --hidden_sizes",
        "give --hidden_sizes");
  }
  return absl::OkStatus();
}

absl::Status CheckDenseTransform(const v1::JobConfig& config) {
  const data::DataOptions::Format format = DataFormatOf(config);
  if (IsDefault(config, "dense_transform") ||
      format == data::DataOptions::Format::kCriteo) {
    return absl::OkStatus();
  }
  return WithoutEffect(
      config, "dense_transform",
      absl::StrCat(
          "--data_format is ", data::NameOf(format),
          config.has_data_format() ? "" : ", the default with a --pipe_command",
          "; legal is with --data_format ",
          data::NameOf(data::DataOptions::Format::kCriteo)),
      "change --data_format");
}

absl::Status CheckDenseNorm(const v1::JobConfig& config) {
  if (IsDefault(config, "dense_norm")) return absl::OkStatus();
  const data::DataOptions data = DataOptionsOf(config);
  // What is not valid is refused elsewhere.
  if (!data.Validate().ok() || data::SchemaOf(data).num_dense > 0) {
    return absl::OkStatus();
  }
  switch (data.format) {
    case data::DataOptions::Format::kCriteo:
      return WithoutEffect(
          config, "dense_norm",
          absl::StrCat(Saying(config, "dense_transform"),
                       ", which makes keys of the dense features"),
          "give --dense_transform log1p");
    case data::DataOptions::Format::kMultiSlot:
      return WithoutEffect(config, "dense_norm", Saying(config, "dense_dim"),
                           "give --dense_dim 1 or more");
    case data::DataOptions::Format::kLibsvm:
    case data::DataOptions::Format::kColumns:
      break;
  }
  return WithoutEffect(
      config, "dense_norm",
      absl::StrCat("--data_format is ", data::NameOf(data.format),
                   ", which has no dense features; legal is with "
                   "--data_format criteo, multi_slot"),
      "change --data_format");
}

bool HasColumns(const v1::JobConfig& config) {
  return DataFormatOf(config) == data::DataOptions::Format::kColumns;
}

absl::Status CheckDatasetMemory(const v1::JobConfig& config) {
  if (IsDefault(config, "dataset_memory_mb") || config.dataset() == "memory" ||
      (HasColumns(config) &&
       (config.shuffle() != "none" || config.repeats_per_epoch() > 1))) {
    return absl::OkStatus();
  }
  return WithoutEffect(
      config, "dataset_memory_mb",
      absl::StrCat(Saying(config, "dataset"),
                   "; legal is with --dataset memory, or where columnar files "
                   "are shuffled or repeated"),
      "change --dataset");
}

// Programs of Fleet with the data in memory may shuffle by a call.
absl::Status CheckWindow(const v1::JobConfig& config) {
  if (IsDefault(config, "shuffle_window_examples")) return absl::OkStatus();
  if (HasColumns(config)) {
    return WithoutEffect(
        config, "shuffle_window_examples",
        absl::StrCat(Saying(config, "data_format"),
                     ", whose rows are drawn from --shuffle_groups row groups"),
        "");
  }
  if (config.shuffle() != "none" || config.dataset() == "memory") {
    return absl::OkStatus();
  }
  return WithoutEffect(
      config, "shuffle_window_examples",
      "--shuffle is none; legal is with --shuffle local, global",
      "change --shuffle");
}

}  // namespace

absl::Status CheckFlagUse(const v1::JobConfig& config) {
  const bool is_lars = config.optimizer() == "lars";
  for (const FlagUse& use : FlagUses()) {
    // Which reads some of them.
    if (is_lars && absl::string_view(use.by) == "optimizer") continue;
    OARLOCK_RETURN_IF_ERROR(CheckUse(config, use));
  }
  for (const FlagNeed& need : FlagNeeds()) {
    OARLOCK_RETURN_IF_ERROR(CheckNeed(config, need));
  }
  if (!is_lars) OARLOCK_RETURN_IF_ERROR(CheckLars(config));
  OARLOCK_RETURN_IF_ERROR(CheckHiddenLayers(config));
  OARLOCK_RETURN_IF_ERROR(CheckDenseTransform(config));
  OARLOCK_RETURN_IF_ERROR(CheckDenseNorm(config));
  OARLOCK_RETURN_IF_ERROR(CheckDatasetMemory(config));
  OARLOCK_RETURN_IF_ERROR(CheckWindow(config));
  if (config.dense_quorum() < 0 && config.dense_quorum() != -1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--dense_quorum is ", config.dense_quorum(),
        "; legal is 0 to 1, a share of the workers, or -1; leave it at -1, and "
        "it is chosen by the number of threads"));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::worker
