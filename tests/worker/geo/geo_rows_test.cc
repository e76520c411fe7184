#include "worker/geo/geo_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "sparse_table/sparse_table.h"

namespace oarlock::worker {
namespace {

constexpr size_t kDim = 3;
constexpr int kBits = 4;

v1::OptimizerConfig Optimizer(const std::string& name) {
  v1::OptimizerConfig config;
  config.set_learning_rate(.1f);
  config.set_warmup_steps(5);
  if (name == "sgd") config.mutable_sgd();
  if (name == "adagrad") config.mutable_adagrad();
  if (name == "adam") config.mutable_adam();
  if (name == "ftrl") config.mutable_ftrl();
  return config;
}

optim::UpdateRule Rule(const std::string& name) {
  return *optim::UpdateRule::Create(Optimizer(name));
}

std::unique_ptr<sparse_table::SparseTable> Table(
    const v1::OptimizerConfig& optimizer) {
  v1::TableConfig config;
  config.set_id(1);
  config.set_name("rows");
  config.set_mode(v1::ASYNC);
  *config.mutable_optimizer() = optimizer;
  config.mutable_sparse()->set_dim(kDim);
  config.mutable_sparse()->set_accessor(v1::PLAIN);
  config.mutable_sparse()->mutable_initializer()->set_uniform_range(.5f);
  return *sparse_table::SparseTable::Create(config, kBits);
}

std::vector<float> Pull(const sparse_table::SparseTable& table,
                        const client::KeyBatch& keys) {
  std::vector<float> values(keys.keys().size() * kDim);
  EXPECT_TRUE(
      table.Pull(keys.groups(), keys.keys().data(), values.data(), nullptr)
          .ok());
  return values;
}

void Push(sparse_table::SparseTable* table, const client::KeyBatch& keys,
          const float* gradients, uint64_t sequence) {
  const PushStamp stamp{WorkerIndex(0), Generation(1), Sequence(sequence)};
  sparse_table::SparsePush push;
  push.groups = keys.groups();
  push.keys = keys.keys().data();
  push.gradients = gradients;
  push.stamps = absl::MakeConstSpan(&stamp, 1);
  ASSERT_TRUE(table->Push(push).ok());
}

v1::OptimizerConfig Subtract() {
  v1::OptimizerConfig config;
  config.set_learning_rate(1);
  config.mutable_sgd();
  return config;
}

class GeoRowsRuleTest : public ::testing::TestWithParam<const char*> {};

// One worker that exchanges after each step, against a table that applies the
// rule itself. What is between them is the rounding of the difference and of
// taking it away: for a weight w that a step moves by d at most
// 2^-24 (|d| + |w|), once a step.
TEST_P(GeoRowsRuleTest, OneStepAnExchangeEqualsTheTablesOwnRule) {
  const uint64_t seed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  const auto async = Table(Optimizer(GetParam()));
  const auto server = Table(Subtract());
  GeoRows rows(Rule(GetParam()), kDim, kBits);
  constexpr int kSteps = 200;
  constexpr float kUnit = 1.0f / (1 << 24);
  float largest_move = 0;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    std::vector<Key> chosen(30);
    for (Key& key : chosen) key = Key{random.Below(60)};
    client::KeyBatch keys;
    keys.Build(chosen, kBits);
    const size_t n = keys.keys().size();
    std::vector<float> gradients(n * kDim);
    for (float& g : gradients) g = static_cast<float>(random.Uniform() - .5);

    const std::vector<float> before = Pull(*async, keys);
    Push(async.get(), keys, gradients.data(), step);

    std::vector<uint32_t> numbers;
    std::vector<Key> missing;
    rows.Find(keys.keys(), &numbers, &missing);
    client::KeyBatch pulled;
    pulled.Build(missing, kBits);
    rows.Install(pulled.keys(), Pull(*server, pulled).data());
    rows.Apply(keys, numbers, gradients.data());
    GeoChanges changes;
    rows.TakeChanges(/*statistics=*/false, &changes);
    ASSERT_EQ(changes.keys.keys().size(), n);
    Push(server.get(), changes.keys, changes.differences.data(), step);

    // What is here is what the server has, bit for bit.
    std::vector<float> here(n * kDim);
    rows.Gather(numbers, here.data());
    const std::vector<float> there = Pull(*server, keys);
    ASSERT_EQ(here, there);
    const std::vector<float> expected = Pull(*async, keys);
    for (size_t i = 0; i < expected.size(); ++i) {
      const float bound = static_cast<float>(step) * kUnit * 4;
      ASSERT_NEAR(there[i], expected[i], bound) << "step " << step;
      largest_move = std::max(largest_move, std::abs(expected[i] - before[i]));
    }
  }
  EXPECT_GT(largest_move, .01f);
}

INSTANTIATE_TEST_SUITE_P(Rules, GeoRowsRuleTest,
                         ::testing::Values("sgd", "adagrad", "adam", "ftrl"));

// Several workers add to one map; each has what the map has plus what it did
// itself since its last exchange.
TEST(GeoRowsTest, WorkersAddUpToTheSumOfTheirChanges) {
  const uint64_t seed = 12;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  constexpr size_t kWorkers = 3;
  std::deque<GeoRows> workers;
  for (size_t w = 0; w < kWorkers; ++w) {
    workers.emplace_back(Rule("adagrad"), kDim, kBits);
  }
  std::map<Key, std::vector<float>> server;
  const auto pull = [&](const std::vector<Key>& keys) {
    std::vector<float> values;
    for (const Key key : keys) {
      const auto& row =
          server.try_emplace(key, std::vector<float>(kDim, .25f)).first->second;
      values.insert(values.end(), row.begin(), row.end());
    }
    return values;
  };
  for (int i = 0; i < 1500; ++i) {
    const size_t w = random.Below(kWorkers);
    GeoRows& rows = workers[w];
    if (random.Below(4) == 0) {
      GeoChanges changes;
      rows.TakeChanges(/*statistics=*/false, &changes);
      for (size_t k = 0; k < changes.keys.keys().size(); ++k) {
        std::vector<float>& row = server.at(changes.keys.keys()[k]);
        for (size_t d = 0; d < kDim; ++d) {
          row[d] -= changes.differences[k * kDim + d];
        }
      }
      // All that it keeps comes back, changes of others included.
      rows.Install(rows.keys(), pull(rows.keys()).data());
      std::vector<uint32_t> numbers;
      std::vector<Key> missing;
      const std::vector<Key> keys = rows.keys();
      rows.Find(keys, &numbers, &missing);
      ASSERT_TRUE(missing.empty());
      std::vector<float> here(keys.size() * kDim);
      rows.Gather(numbers, here.data());
      ASSERT_EQ(here, pull(keys));
      continue;
    }
    std::vector<Key> chosen(1 + random.Below(10));
    for (Key& key : chosen) key = Key{random.Below(30)};
    client::KeyBatch keys;
    keys.Build(chosen, kBits);
    std::vector<uint32_t> numbers;
    std::vector<Key> missing;
    rows.Find(keys.keys(), &numbers, &missing);
    rows.Install(missing, pull(missing).data());
    std::vector<float> gradients(keys.keys().size() * kDim);
    for (float& g : gradients) g = static_cast<float>(random.Uniform() - .5);
    rows.Apply(keys, numbers, gradients.data());
  }
}

// Rows that are pulled while there are changes keep them on top.
TEST(GeoRowsTest, WhatIsPulledDoesNotTakeAwayWhatWasTrained) {
  GeoRows rows(Rule("sgd"), 1, 0);
  client::KeyBatch keys;
  keys.Build({Key{1}, Key{2}}, 0);
  std::vector<uint32_t> numbers;
  std::vector<Key> missing;
  rows.Find(keys.keys(), &numbers, &missing);
  const float zeros[] = {0, 0};
  rows.Install(missing, zeros);
  client::KeyBatch first;
  first.Build({keys.keys()[0]}, 0);
  const float gradient[] = {-50};  // .1 / 5 of it: warm-up
  rows.Apply(first, {numbers.data(), 1}, gradient);
  const float others[] = {16, 32};
  rows.Install(keys.keys(), others);
  float values[2];
  rows.Gather(numbers, values);
  EXPECT_FLOAT_EQ(values[0], 17);
  EXPECT_EQ(values[1], 32);
  GeoChanges changes;
  rows.TakeChanges(/*statistics=*/false, &changes);
  ASSERT_EQ(changes.keys.keys(), first.keys());
  EXPECT_NEAR(changes.differences[0], -1, 2e-6f);
  rows.TakeChanges(/*statistics=*/false, &changes);
  EXPECT_TRUE(changes.keys.keys().empty());
}

TEST(GeoRowsTest, CountsGoWithTheNextChangesAndOnce) {
  GeoRows rows(Rule("sgd"), 1, 0);
  client::KeyBatch keys;
  keys.Build({Key{1}, Key{2}}, 0);
  std::vector<uint32_t> numbers;
  std::vector<Key> missing;
  rows.Find(keys.keys(), &numbers, &missing);
  const float zeros[] = {0, 0};
  rows.Install(missing, zeros);
  GeoChanges changes;
  for (int i = 0; i < 2; ++i) {
    const float shows[] = {3, 1};
    const float clicks[] = {1, 0};
    for (int step = 0; step < 2; ++step) {
      rows.Count(numbers, shows, clicks);
      rows.Apply(keys, numbers, zeros);
    }
    rows.TakeChanges(/*statistics=*/true, &changes);
    EXPECT_EQ(changes.keys.keys(), keys.keys());
    EXPECT_EQ(changes.shows, (std::vector<float>{6, 2}));
    EXPECT_EQ(changes.clicks, (std::vector<float>{2, 0}));
  }
}

TEST(GeoRowsTest, ShrinkDropsRowsThatTheLastExchangesDidNotTouch) {
  GeoRows rows(Rule("sgd"), 1, 2);
  std::vector<uint32_t> numbers;
  std::vector<Key> missing;
  GeoChanges changes;
  // Exchange e touches keys [1000 e, 1000 e + 1000 + e).
  for (uint64_t e = 0; e < 10; ++e) {
    std::vector<Key> chosen;
    for (uint64_t k = 0; k < 1000 + e; ++k) chosen.push_back(Key{1000 * e + k});
    client::KeyBatch keys;
    keys.Build(chosen, 2);
    missing.clear();
    rows.Find(keys.keys(), &numbers, &missing);
    std::vector<float> values;
    for (const Key key : missing) {
      values.push_back(static_cast<float>(static_cast<uint64_t>(key)));
    }
    rows.Install(missing, values.data());
    rows.Apply(keys, numbers, std::vector<float>(keys.keys().size()).data());
    rows.TakeChanges(/*statistics=*/false, &changes);
  }
  rows.Shrink(10009);
  EXPECT_EQ(rows.num_rows(), 10009u);
  rows.Shrink(5000);
  EXPECT_EQ(rows.num_rows(), 5000u);
  // Those of the last two stay however few are wanted.
  rows.Shrink(10);
  EXPECT_EQ(rows.num_rows(), 2009u);
  std::vector<Key> kept;
  for (uint64_t k = 8000; k < 10009; ++k) kept.push_back(Key{k});
  missing.clear();
  rows.Find(kept, &numbers, &missing);
  EXPECT_TRUE(missing.empty());
  std::vector<float> values(kept.size());
  rows.Gather(numbers, values.data());
  for (size_t i = 0; i < kept.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<float>(8000 + i));
  }
}

}  // namespace
}  // namespace oarlock::worker
