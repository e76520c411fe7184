// The table with all its rules against a plain one. With a few rows of a
// partition in memory and the others on disk the table must do the same.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>

#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/rules_model.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

// The second is how many rows of a partition are in memory; 0: all.
class RowRulesModelTest
    : public testing::TestWithParam<std::tuple<Case, size_t>> {};

// Bitwise. The sketch is wide enough for these few keys to have counters of
// their own; what happens otherwise is count_sketch_test's.
TEST_P(RowRulesModelTest, RandomOperationsAgreeWithAMap) {
  const auto& [of_rows, memory_rows] = GetParam();
  v1::TableConfig config = ConfigOf(of_rows);
  const SparseTableOptions options = WithTiers(memory_rows, &config);
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, kBits, options);
  ASSERT_TRUE(table.ok()) << table.status();
  Model model(config);
  RandomTraffic traffic(config, 2026);
  for (int step = 0; step < 400 && !HasFatalFailure(); ++step) {
    traffic.Step(**table, model);
  }
  ExpectSameRows(**table, model);
  EXPECT_GT(traffic.num_evicted(), 100u);
  EXPECT_GT(model.rows().size(), 10u);
  const SparseTableStats stats = (*table)->Stats();
  if (memory_rows == 0) {
    EXPECT_EQ(stats.demoted_rows, 0u);
  } else {
    EXPECT_GT(stats.cold_rows, 0u);
    EXPECT_GT(stats.promoted_rows, 100u);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RowRulesModelTest,
                         testing::Combine(testing::ValuesIn(AllCases()),
                                          testing::Values(0, 1, 10, 40)),
                         [](const auto& info) {
                           const size_t memory_rows = std::get<1>(info.param);
                           const std::string name =
                               std::get<0>(info.param).name;
                           return memory_rows == 0
                                      ? name
                                      : name + std::to_string(memory_rows) +
                                            "InMemory";
                         });

}  // namespace
}  // namespace oarlock::sparse_table
