#include "fleet/data_parallel/training_summary.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "worker/whole_file.h"

namespace oarlock {

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
  json["epochs"] = nlohmann::ordered_json::array();
  for (const ClassificationSummary::Epoch& epoch : summary.epochs) {
    json["epochs"].push_back({{"train_accuracy", epoch.train_accuracy},
                              {"train_loss", epoch.train_loss},
                              {"test_accuracy", epoch.test_accuracy},
                              {"test_loss", epoch.test_loss},
                              {"seconds", epoch.seconds}});
  }
  return WriteWholeFile(path, absl::StrCat(json.dump(2), "\n"));
}

}  // namespace oarlock
