// The oracle itself, on tables in this process: it agrees with tables that
// nothing happens to, and with no others.

#include "tests/stress/oracle_thread.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "fleet/local_cluster.h"
#include "optim/rules.h"
#include "tests/client/blocking_calls.h"
#include "tests/stress/oracle_tables.h"

namespace oarlock {
namespace {

constexpr uint64_t kSeed = 12;
constexpr uint32_t kPartitions = 4;
constexpr uint64_t kColdMemoryBytes = 512 << 10;

class OracleThreadTest : public testing::Test {
 protected:
  OracleThreadTest()
      : client_(kPartitions, {.tier_dir = testing::TempDir(), .clocks = {}}) {
    for (const v1::TableConfig& table : tables_) {
      const absl::Status created = client_.CreateTable(table);
      EXPECT_TRUE(created.ok()) << created;
    }
    for (uint32_t i = 0; i < 2; ++i) {
      oracle_threads_.emplace_back(tables_, client_.partition_bits(), kSeed, i,
                                   /*num_threads=*/2, v1::FLOAT32);
    }
  }

  absl::Status Push(const std::shared_ptr<OraclePush>& push) {
    return client::PushAndWait(client_, push->Request(), push);
  }
  void PushMany(int num_pushes) {
    for (int i = 0; i < num_pushes; ++i) {
      for (OracleThread& thread : oracle_threads_) {
        const std::shared_ptr<OraclePush> push = thread.NextPush();
        ASSERT_TRUE(Push(push).ok());
        const absl::Status seen = thread.Acknowledged(*push);
        ASSERT_TRUE(seen.ok()) << seen;
      }
    }
  }

  const std::vector<v1::TableConfig> tables_ =
      OracleTables(kSeed, kColdMemoryBytes);
  LocalParameterClient client_;
  std::vector<OracleThread> oracle_threads_;
};

TEST_F(OracleThreadTest, EveryRuleHasASparseAndADenseTable) {
  std::set<size_t> sparse, dense;
  for (const v1::TableConfig& table : tables_) {
    (table.has_sparse() ? sparse : dense).insert(table.optimizer().rule_case());
  }
  // Sgd has two names.
  const size_t num_rules = std::variant_size_v<optim::AnyRule::Rule> + 1;
  EXPECT_EQ(sparse.size(), num_rules);
  EXPECT_EQ(dense.size(), num_rules);
}

TEST_F(OracleThreadTest, TablesThatEveryPushReachedOnceAreTheModels) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  PushMany(150);
  for (const OracleThread& thread : oracle_threads_) {
    const absl::Status seen = thread.LookAtAll(&client_);
    EXPECT_TRUE(seen.ok()) << seen;
  }
}

TEST_F(OracleThreadTest, APushThatIsAppliedTwiceIsSeen) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  PushMany(20);
  // Under another name, so that no window keeps it off.
  ASSERT_TRUE(Push(oracle_threads_[1].NextPush()).ok());
  PushMany(1);
  EXPECT_TRUE(oracle_threads_[0].LookAtAll(&client_).ok());
  const absl::Status seen = oracle_threads_[1].LookAtAll(&client_);
  EXPECT_TRUE(absl::IsDataLoss(seen)) << seen;
}

TEST_F(OracleThreadTest, APushThatIsLostIsSeen) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  PushMany(20);
  OraclePush lost = *oracle_threads_[1].NextPush();
  for (OraclePush::Dense& table : lost.dense) table.wants_updated = false;
  ASSERT_TRUE(oracle_threads_[1].Acknowledged(lost).ok());
  EXPECT_TRUE(oracle_threads_[0].LookAtAll(&client_).ok());
  const absl::Status seen = oracle_threads_[1].LookAtAll(&client_);
  EXPECT_TRUE(absl::IsDataLoss(seen)) << seen;
}

TEST_F(OracleThreadTest, PushesThatChangePlacesAreSeen) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  PushMany(20);
  OracleThread& thread = oracle_threads_[1];
  const std::shared_ptr<OraclePush> first = thread.NextPush();
  ASSERT_TRUE(Push(first).ok());
  for (OraclePush::Dense& table : first->dense) table.wants_updated = false;
  // The same rows with other gradients: the two do not commute.
  OraclePush second = *first;
  for (OraclePush::Rows& table : second.rows) {
    for (float& g : table.gradients) g = 0.5f - g;
  }
  ASSERT_TRUE(client::PushAndWait(client_, second.Request(),
                                  std::make_shared<OraclePush>(second))
                  .ok());
  ASSERT_TRUE(thread.Acknowledged(second).ok());
  ASSERT_TRUE(thread.Acknowledged(*first).ok());
  const absl::Status seen = thread.LookAtAll(&client_);
  EXPECT_TRUE(absl::IsDataLoss(seen)) << seen;
}

}  // namespace
}  // namespace oarlock
