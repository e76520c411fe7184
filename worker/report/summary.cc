#include "worker/report/summary.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/auc.h"
#include "base/log2_histogram.h"
#include "worker/report/write_file_atomically.h"

namespace oarlock::worker {
namespace {

// In the order of a step; see ProgressMeter.
constexpr const char* kStages[] = {"read",    "pull", "wait_pull",
                                   "compute", "push", "wait_push"};

// A folder may have any name.
using Handler = nlohmann::ordered_json::error_handler_t;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

nlohmann::json NumberOrNull(double value) {
  if (std::isnan(value)) return nullptr;
  return value;
}

nlohmann::ordered_json ToJson(const v1::Evaluation& evaluation) {
  return {{"phase_name", evaluation.work()},
          {"file", evaluation.file()},
          {"examples", evaluation.examples()},
          {"auc", NumberOrNull(evaluation.auc())},
          {"logloss", NumberOrNull(evaluation.logloss())},
          {"label_mean", evaluation.label_mean()},
          {"trained_examples", evaluation.trained_examples()},
          {"trained_steps", evaluation.trained_steps()},
          {"unix_seconds", evaluation.unix_seconds()},
          {"best", evaluation.best()},
          {"checkpoint", evaluation.checkpoint()}};
}

// Fields that are missing or null stay what they are before anything is known.
v1::Evaluation EvaluationFrom(const nlohmann::ordered_json& json) {
  const auto number = [&](const char* name, double fallback) {
    const auto it = json.find(name);
    return it != json.end() && it->is_number() ? it->get<double>() : fallback;
  };
  const auto text = [&](const char* name) {
    const auto it = json.find(name);
    return it != json.end() && it->is_string() ? it->get<std::string>() : "";
  };
  v1::Evaluation evaluation;
  evaluation.set_work(text("phase_name"));
  evaluation.set_file(text("file"));
  evaluation.set_examples(static_cast<uint64_t>(number("examples", 0)));
  evaluation.set_auc(number("auc", kNothing));
  evaluation.set_label_mean(number("label_mean", 0));
  evaluation.set_logloss(number("logloss", kNothing));
  evaluation.set_trained_examples(
      static_cast<uint64_t>(number("trained_examples", 0)));
  evaluation.set_trained_steps(
      static_cast<uint64_t>(number("trained_steps", 0)));
  evaluation.set_unix_seconds(number("unix_seconds", 0));
  const auto best = json.find("best");
  evaluation.set_best(best != json.end() && best->is_boolean() &&
                      best->get<bool>());
  evaluation.set_checkpoint(text("checkpoint"));
  return evaluation;
}

double LabelMean(const v1::PhaseProgress& progress) {
  return progress.examples() == 0
             ? 0
             : progress.label_sum() / static_cast<double>(progress.examples());
}

// The best of them, and where it is kept; empty where none is marked.
std::string BestLine(const TrainingSummary& summary) {
  const v1::Evaluation* best = nullptr;
  for (const v1::Evaluation& evaluation : summary.evaluations) {
    if (evaluation.best()) best = &evaluation;
  }
  if (best == nullptr) return "";
  return absl::StrFormat(
      "best      AUC %s  logloss %.4f   %s, after %d examples%s%s\n",
      AucText(best->auc(), 4, best->label_mean(), best->examples()),
      best->logloss(), best->work(), best->trained_examples(),
      best->checkpoint().empty() ? "" : "   kept in ", best->checkpoint());
}

}  // namespace

TrainingSummary SummaryOf(const v1::JobStatusResponse& status) {
  TrainingSummary summary;
  summary.train_auc = summary.train_logloss = kNothing;
  summary.test_auc = summary.test_logloss = kNothing;
  summary.staleness_p50 = summary.staleness_p99 = kNothing;
  summary.dense_staleness_p50 = summary.dense_staleness_p99 = kNothing;
  summary.row_cache_hit_rate = kNothing;
  for (const v1::PhaseStatus& phase : status.phases()) {
    const v1::PhaseProgress& progress = phase.progress();
    summary.bad_lines += progress.bad_lines();
    // A file of online training, before it is trained.
    if (progress.phase() == "predict") continue;
    if (progress.phase() == "test") {
      summary.test_auc = phase.auc();
      summary.test_logloss = phase.logloss();
      summary.test_label_mean = LabelMean(progress);
      summary.test_examples = progress.examples();
      continue;
    }
    summary.examples += progress.examples();
    summary.train_auc = phase.auc();
    summary.train_logloss = phase.logloss();
    summary.train_label_mean = LabelMean(progress);
    summary.last_epoch_examples = progress.examples();
    summary.staleness_p50 = Log2Quantile(progress.staleness_histogram(), .5);
    summary.staleness_p99 = Log2Quantile(progress.staleness_histogram(), .99);
    summary.dense_staleness_p50 =
        Log2Quantile(progress.dense_staleness_histogram(), .5);
    summary.dense_staleness_p99 =
        Log2Quantile(progress.dense_staleness_histogram(), .99);
    summary.row_cache_hit_rate =
        progress.row_cache_lookups() == 0
            ? kNothing
            : static_cast<double>(progress.row_cache_hits()) /
                  static_cast<double>(progress.row_cache_lookups());
    summary.stage_seconds_per_step.clear();
    for (const v1::StageTime& stage : progress.stages()) {
      summary.stage_seconds_per_step.emplace_back(
          stage.stage(),
          stage.seconds() / std::max<uint64_t>(1, progress.steps()));
    }
  }
  summary.evaluations.assign(status.evaluations().begin(),
                             status.evaluations().end());
  summary.stop_reason = status.stop_reason();
  return summary;
}

std::string SummaryJson(const TrainingSummary& summary) {
  nlohmann::ordered_json json;
  json["model"] = summary.model;
  json["mode"] = summary.mode;
  json["servers"] = summary.servers;
  json["workers"] = summary.workers;
  json["epochs"] = summary.epochs;
  json["examples"] = summary.examples;
  json["seconds"] = summary.seconds;
  json["examples_per_second"] =
      summary.seconds > 0 ? summary.examples / summary.seconds : 0;
  json["train_auc"] = NumberOrNull(summary.train_auc);
  json["train_logloss"] = NumberOrNull(summary.train_logloss);
  json["train_label_mean"] = summary.train_label_mean;
  json["last_epoch_examples"] = summary.last_epoch_examples;
  json["test_auc"] = NumberOrNull(summary.test_auc);
  json["test_logloss"] = NumberOrNull(summary.test_logloss);
  json["test_label_mean"] = summary.test_label_mean;
  json["test_examples"] = summary.test_examples;
  json["bad_lines"] = summary.bad_lines;
  json["staleness_p50"] = NumberOrNull(summary.staleness_p50);
  json["staleness_p99"] = NumberOrNull(summary.staleness_p99);
  json["dense_staleness_p50"] = NumberOrNull(summary.dense_staleness_p50);
  json["dense_staleness_p99"] = NumberOrNull(summary.dense_staleness_p99);
  json["row_cache_hit_rate"] = NumberOrNull(summary.row_cache_hit_rate);
  for (const auto& [stage, seconds] : summary.stage_seconds_per_step) {
    json["stage_seconds_per_step"][stage] = seconds;
  }
  json["stop_reason"] = summary.stop_reason;
  json["warnings"] = summary.warnings;
  json["version"] = summary.version;
  json["train_files_digest"] = summary.train_files_digest;
  json["test_files_digest"] = summary.test_files_digest;
  json["flags"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : summary.flags) json["flags"][name] = value;
  json["evaluations"] = nlohmann::ordered_json::array();
  for (const v1::Evaluation& evaluation : summary.evaluations) {
    json["evaluations"].push_back(ToJson(evaluation));
  }
  return json.dump(2, ' ', /*ensure_ascii=*/false, Handler::replace);
}

std::string EvaluationJson(const v1::Evaluation& evaluation) {
  return ToJson(evaluation)
      .dump(-1, ' ', /*ensure_ascii=*/false, Handler::replace);
}

absl::Status WriteSummary(const TrainingSummary& summary,
                          const std::string& path) {
  return WriteFileAtomically(path, absl::StrCat(SummaryJson(summary), "\n"));
}

absl::StatusOr<TrainingSummary> ReadSummary(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return absl::NotFoundError(
        absl::StrCat(path, " is not there; did the first worker end well?"));
  }
  // Ordered: stages stay as they were written.
  const nlohmann::ordered_json json =
      nlohmann::ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(path, " is no JSON object"));
  }
  // Fields that are missing or null stay what `fallback` says.
  const auto number = [&](const char* name, double fallback) {
    const auto it = json.find(name);
    return it != json.end() && it->is_number() ? it->get<double>() : fallback;
  };
  const auto text = [&](const char* name) {
    const auto it = json.find(name);
    return it != json.end() && it->is_string() ? it->get<std::string>() : "";
  };
  TrainingSummary summary;
  summary.model = text("model");
  summary.mode = text("mode");
  summary.servers = static_cast<uint32_t>(number("servers", 0));
  summary.workers = static_cast<uint32_t>(number("workers", 0));
  summary.epochs = static_cast<int>(number("epochs", 0));
  summary.examples = static_cast<uint64_t>(number("examples", 0));
  summary.seconds = number("seconds", 0);
  summary.train_auc = number("train_auc", kNothing);
  summary.train_logloss = number("train_logloss", kNothing);
  summary.train_label_mean = number("train_label_mean", 0);
  summary.last_epoch_examples =
      static_cast<uint64_t>(number("last_epoch_examples", 0));
  summary.test_label_mean = number("test_label_mean", 0);
  summary.test_auc = number("test_auc", kNothing);
  summary.test_logloss = number("test_logloss", kNothing);
  summary.test_examples = static_cast<uint64_t>(number("test_examples", 0));
  summary.bad_lines = static_cast<uint64_t>(number("bad_lines", 0));
  summary.staleness_p50 = number("staleness_p50", kNothing);
  summary.staleness_p99 = number("staleness_p99", kNothing);
  summary.dense_staleness_p50 = number("dense_staleness_p50", kNothing);
  summary.dense_staleness_p99 = number("dense_staleness_p99", kNothing);
  summary.row_cache_hit_rate = number("row_cache_hit_rate", kNothing);
  summary.stop_reason = text("stop_reason");
  summary.version = text("version");
  summary.train_files_digest = text("train_files_digest");
  summary.test_files_digest = text("test_files_digest");
  if (const auto flags = json.find("flags");
      flags != json.end() && flags->is_object()) {
    for (const auto& [name, value] : flags->items()) {
      if (value.is_string()) summary.flags.emplace_back(name, value);
    }
  }
  if (const auto warnings = json.find("warnings");
      warnings != json.end() && warnings->is_array()) {
    for (const auto& warning : *warnings) {
      if (warning.is_string()) summary.warnings.push_back(warning);
    }
  }
  if (const auto list = json.find("evaluations");
      list != json.end() && list->is_array()) {
    for (const nlohmann::ordered_json& evaluation : *list) {
      if (!evaluation.is_object()) continue;
      summary.evaluations.push_back(EvaluationFrom(evaluation));
    }
  }
  if (const auto stages = json.find("stage_seconds_per_step");
      stages != json.end() && stages->is_object()) {
    for (const auto& [stage, seconds] : stages->items()) {
      if (!seconds.is_number()) continue;
      summary.stage_seconds_per_step.emplace_back(stage, seconds.get<double>());
    }
  }
  return summary;
}

std::string SummaryTable(const TrainingSummary& summary) {
  std::string table = absl::StrFormat(
      "train     AUC %s  logloss %.4f   %d examples in %.1f s   %.0f "
      "examples/s\n",
      AucText(summary.train_auc, 4, summary.train_label_mean,
              summary.last_epoch_examples),
      summary.train_logloss, summary.examples, summary.seconds,
      summary.seconds > 0 ? summary.examples / summary.seconds : 0);
  if (summary.test_examples > 0) {
    absl::StrAppendFormat(&table,
                          "test      AUC %s  logloss %.4f   %d examples\n",
                          AucText(summary.test_auc, 4, summary.test_label_mean,
                                  summary.test_examples),
                          summary.test_logloss, summary.test_examples);
  }
  absl::StrAppend(&table, BestLine(summary));
  absl::StrAppend(&table, "a step   ");
  for (const char* stage : kStages) {
    for (const auto& [name, seconds] : summary.stage_seconds_per_step) {
      if (name != stage) continue;
      absl::StrAppendFormat(&table, " %s %.2f", name, seconds * 1e3);
    }
  }
  absl::StrAppend(&table, " ms\n");
  if (!std::isnan(summary.staleness_p50)) {
    absl::StrAppendFormat(&table, "staleness p50 %.0f  p99 %.0f pushes",
                          summary.staleness_p50, summary.staleness_p99);
    if (!std::isnan(summary.dense_staleness_p50)) {
      absl::StrAppendFormat(&table, "   dense p50 %.0f  p99 %.0f",
                            summary.dense_staleness_p50,
                            summary.dense_staleness_p99);
    }
    absl::StrAppend(&table, "\n");
  }
  if (!std::isnan(summary.row_cache_hit_rate)) {
    absl::StrAppendFormat(&table,
                          "row cache %.1f %% of the rows were not pulled\n",
                          100 * summary.row_cache_hit_rate);
  }
  if (summary.bad_lines > 0) {
    absl::StrAppendFormat(&table, "skipped   %d malformed lines\n",
                          summary.bad_lines);
  }
  // The newest says how things are; the others are in the file.
  if (!summary.warnings.empty()) {
    absl::StrAppend(&table, "warning   ", summary.warnings.back(), "\n");
  }
  if (!summary.stop_reason.empty()) {
    absl::StrAppend(&table, "stopped   ", summary.stop_reason, "\n");
  }
  return table;
}

}  // namespace oarlock::worker
