#include "fleet/data_parallel/training_summary.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "worker/report/write_file_atomically.h"

namespace oarlock {
namespace {

void AddTimes(const StepTimes& times, nlohmann::ordered_json* json) {
  nlohmann::ordered_json& to = *json;
  to["updates"] = times.updates;
  to["forward_seconds"] = absl::ToDoubleSeconds(times.forward);
  to["backward_seconds"] = absl::ToDoubleSeconds(times.backward);
  to["update_seconds"] = absl::ToDoubleSeconds(times.update);
  to["communication_seconds"] =
      absl::ToDoubleSeconds(times.exchange.communication);
  to["exposed_communication_seconds"] =
      absl::ToDoubleSeconds(times.exchange.exposed);
  to["gradients_final"] = nlohmann::ordered_json::array();
  for (const StepTimes::FinalGradients& final : times.finals) {
    to["gradients_final"].push_back(
        {{"first_byte", final.first * sizeof(float)},
         {"seconds", absl::ToDoubleSeconds(final.after_begin) /
                         static_cast<double>(final.backwards)}});
  }
}

}  // namespace

absl::Status WriteClassificationSummary(const ClassificationSummary& summary,
                                        const std::string& path) {
  nlohmann::ordered_json json;
  json["name"] = summary.name;
  json["group"] = summary.group;
  json["ranks"] = summary.ranks;
  json["batch_size"] = summary.batch_size;
  json["images_per_second"] = summary.images_per_second;
  if (!summary.epochs.empty()) {
    json["test_accuracy"] = summary.epochs.back().test_accuracy;
    json["test_loss"] = summary.epochs.back().test_loss;
  }
  json["gradient_bytes"] = summary.gradient_bytes;
  AddTimes(summary.times, &json);
  json["epochs"] = nlohmann::ordered_json::array();
  for (const ClassificationSummary::Epoch& epoch : summary.epochs) {
    nlohmann::ordered_json& to = json["epochs"].emplace_back();
    // Only evaluated: there is no loss of training.
    if (std::isfinite(epoch.train_loss)) {
      to["train_accuracy"] = epoch.train_accuracy;
      to["train_loss"] = epoch.train_loss;
    }
    to["test_accuracy"] = epoch.test_accuracy;
    to["test_loss"] = epoch.test_loss;
    to["seconds"] = epoch.seconds;
  }
  return worker::WriteFileAtomically(path, absl::StrCat(json.dump(2), "\n"));
}

}  // namespace oarlock
