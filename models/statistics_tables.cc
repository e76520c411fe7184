#include "models/statistics_tables.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oarlock::models {

std::vector<StatisticsTable> StatisticsTablesOf(const nn::Network& network) {
  std::vector<StatisticsTable> tables;
  const std::vector<float>& decays = network.statistic_decays();
  for (size_t i = 0; i < decays.size(); ++i) {
    auto table = std::find_if(
        tables.begin(), tables.end(),
        [&](const StatisticsTable& t) { return t.decay == decays[i]; });
    if (table == tables.end()) {
      std::string name = "statistics";
      if (!tables.empty()) absl::StrAppend(&name, "_", tables.size() + 1);
      tables.push_back({std::move(name), decays[i], {}});
      table = tables.end() - 1;
    }
    table->statistics.push_back(i);
  }
  return tables;
}

}  // namespace oarlock::models
