// docs/metrics.md is what the code says, and the code keeps the rules of names
// that the document states.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/metrics.h"
#include "pserver/server.h"
#include "tests/fleet/document_tables.h"
#include "worker/report/worker_metrics.h"

namespace oarlock {
namespace {

constexpr char kDocument[] = "docs/metrics.md";

std::string TableOf(MetricList metrics) {
  std::string table =
      "| metric | kind | unit | labels | meaning |\n"
      "| --- | --- | --- | --- | --- |\n";
  for (const Metric* metric : metrics) {
    absl::StrAppend(&table, "| `", metric->name, "` | ",
                    MetricKindName(metric->kind), " | ", metric->unit, " | ",
                    metric->labels, " | ", metric->help, " |\n");
  }
  return table;
}

DocumentTables Tables() {
  return {{"server", TableOf(pserver::ServerMetrics())},
          {"worker", TableOf(worker::WorkerMetricsList())}};
}

TEST(MetricsDocTest, EveryTableIsWhatTheCodeSays) {
  const std::string document = ReadDocument(kDocument);
  ASSERT_FALSE(document.empty());
  std::vector<std::string> missing;
  const std::string expected = WithTables(document, Tables(), &missing);
  EXPECT_TRUE(missing.empty()) << missing.front() << " has no place";
  EXPECT_EQ(document, expected)
      << "run `bazel run //tests/fleet:metrics_doc_test -- --write`";
}

TEST(MetricsDocTest, NamesKeepTheRules) {
  std::vector<const Metric*> metrics = pserver::ServerMetrics();
  for (const Metric* metric : worker::WorkerMetricsList())
    metrics.push_back(metric);
  std::set<std::string> names;
  for (const Metric* metric : metrics) {
    SCOPED_TRACE(metric->name);
    EXPECT_TRUE(names.insert(metric->name).second);
    EXPECT_EQ(std::string(metric->name)
                  .find_first_not_of("abcdefghijklmnopqrstuvwxyz_"),
              std::string::npos);
    EXPECT_TRUE(absl::StartsWith(metric->name, "oarlock_server_") ||
                absl::StartsWith(metric->name, "oarlock_coordinator_") ||
                absl::StartsWith(metric->name, "oarlock_worker_"));
    EXPECT_EQ(absl::EndsWith(metric->name, "_total"),
              metric->kind == MetricKind::kCounter);
    EXPECT_STRNE(metric->unit, "");
    EXPECT_TRUE(absl::EndsWith(metric->help, "."));
  }
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  return oarlock::DocumentTestMain(argc, argv, oarlock::kDocument,
                                   oarlock::Tables());
}
