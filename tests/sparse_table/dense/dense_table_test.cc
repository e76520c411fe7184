#include "sparse_table/dense/dense_table.h"

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/dense_version.h"
#include "base/random.h"
#include "cluster/partition_map.h"
#include "gtest/gtest.h"
#include "tests/optim/rule_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint64_t kSize = 1003;
constexpr uint32_t kBlock = 64;

// Two parameters that share a block, with different initial values.
v1::TableConfig TwoParameters() {
  v1::TableConfig config = pserver::DenseConfig(kSize, kBlock, 0.1f);
  v1::DenseParameter* weight = config.mutable_dense()->add_parameters();
  weight->set_name("fc1/weight");
  weight->set_offset(0);
  weight->add_shape(10);
  weight->add_shape(90);
  weight->mutable_initializer()->set_uniform_range(0.5f);
  v1::DenseParameter* bias = config.mutable_dense()->add_parameters();
  bias->set_name("fc1/bias");
  bias->set_offset(900);
  bias->add_shape(103);
  bias->mutable_initializer()->set_constant(2);
  return config;
}

// The whole vector, from the servers that hold its blocks.
std::vector<float> VectorOf(
    const std::vector<std::unique_ptr<DenseTable>>& servers) {
  std::vector<float> vector;
  for (uint32_t b = 0; b < servers[0]->num_blocks(); ++b) {
    int owners = 0;
    for (const auto& server : servers) {
      if (!server->Owns(BlockIndex(b))) continue;
      ++owners;
      const auto values = pserver::BlockOf(*server, BlockIndex(b));
      vector.insert(vector.end(), values.begin(), values.end());
    }
    EXPECT_EQ(owners, 1) << "block " << b;
  }
  return vector;
}

std::vector<std::unique_ptr<DenseTable>> MakeServers(
    const v1::TableConfig& config, uint32_t num_servers) {
  std::vector<std::unique_ptr<DenseTable>> servers;
  for (uint32_t s = 0; s < num_servers; ++s) {
    servers.push_back(pserver::MakeDense(config, num_servers, s));
  }
  return servers;
}

// Pushes the gradient of the whole vector to the servers' blocks.
void PushVector(const std::vector<std::unique_ptr<DenseTable>>& servers,
                const std::vector<float>& gradient, uint64_t sequence) {
  const PushStamp stamp{WorkerIndex(0), Generation(1), Sequence(sequence)};
  for (const auto& server : servers) {
    for (uint32_t b = 0; b < server->num_blocks(); ++b) {
      if (!server->Owns(BlockIndex(b))) continue;
      EXPECT_TRUE(server->Push(BlockIndex(b), gradient.data() + b * kBlock,
                               {&stamp, 1}));
    }
  }
}

std::vector<float> RandomVector(uint64_t seed) {
  std::vector<float> vector(kSize);
  for (size_t i = 0; i < kSize; ++i) vector[i] = RandomNormal(seed, i);
  return vector;
}

TEST(DenseTableTest, InitialValuesFollowTheParametersOnAnyNumberOfServers) {
  const std::vector<float> one = VectorOf(MakeServers(TwoParameters(), 1));
  ASSERT_EQ(one.size(), kSize);
  double sum = 0;
  for (size_t i = 0; i < 900; ++i) {
    EXPECT_LT(std::abs(one[i]), 0.5f);
    sum += one[i];
  }
  EXPECT_LT(std::abs(sum / 900), 0.05) << "uniform around zero";
  EXPECT_NE(one[0], one[1]);
  for (size_t i = 900; i < kSize; ++i) EXPECT_EQ(one[i], 2);
  for (uint32_t servers : {2, 3, 16}) {
    EXPECT_EQ(VectorOf(MakeServers(TwoParameters(), servers)), one);
  }
  v1::TableConfig other_seed = TwoParameters();
  other_seed.set_seed(8);
  EXPECT_NE(VectorOf(MakeServers(other_seed, 1)), one);
}

// Pushes a gradient of ones, computed from `known_version` of block 0; how far
// that moves it under a rate of -1.
float MovedBy(DenseTable& table, uint64_t sequence, uint64_t known_version) {
  const std::vector<float> ones(kBlock, 1);
  std::vector<float> values(kBlock);
  table.Pull(BlockIndex(0), 0, values.data());
  const float before = values[0];
  const PushStamp stamp{WorkerIndex(0), Generation(1), Sequence(sequence)};
  EXPECT_TRUE(
      table.Push(BlockIndex(0), ones.data(), {&stamp, 1}, 1, known_version));
  table.Pull(BlockIndex(0), 0, values.data());
  return values[0] - before;
}

v1::TableConfig StaleConfig() {
  v1::TableConfig config = TwoParameters();
  config.mutable_optimizer()->Clear();
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_optimizer()->set_learning_rate(-1);
  config.mutable_dense()->set_staleness_power(1);
  return config;
}

TEST(DenseTableTest, StaleGradientsMoveABlockByLess) {
  const std::unique_ptr<DenseTable> table =
      pserver::MakeDense(StaleConfig(), 1, 0);
  std::vector<float> values(kBlock);
  const uint64_t begin = table->Pull(BlockIndex(0), 0, values.data());
  EXPECT_FLOAT_EQ(MovedBy(*table, 1, begin), 1);
  EXPECT_FLOAT_EQ(MovedBy(*table, 2, begin), 0.5f);
  EXPECT_FLOAT_EQ(MovedBy(*table, 3, begin + 2), 1);
  EXPECT_FLOAT_EQ(MovedBy(*table, 4, begin), 0.25f);
  // Nobody knows, and one that is still to come.
  EXPECT_FLOAT_EQ(MovedBy(*table, 5, 0), 1);
  EXPECT_FLOAT_EQ(MovedBy(*table, 6, begin + 7), 1);
}

TEST(DenseTableTest, APowerCanBeGivenLaterAndNotBesideAQuorum) {
  v1::TableConfig config = StaleConfig();
  config.mutable_dense()->set_staleness_power(0);
  const std::unique_ptr<DenseTable> table = pserver::MakeDense(config, 1, 0);
  std::vector<float> values(kBlock);
  const uint64_t begin = table->Pull(BlockIndex(0), 0, values.data());
  MovedBy(*table, 1, begin);
  EXPECT_FLOAT_EQ(MovedBy(*table, 2, begin), 1);
  ASSERT_TRUE(table->Reconfigure(StaleConfig()).ok());
  EXPECT_FLOAT_EQ(MovedBy(*table, 3, begin), 1.0f / 3);
  config = StaleConfig();
  config.mutable_dense()->set_quorum(0.75f);
  EXPECT_EQ(table->Reconfigure(config).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FLOAT_EQ(MovedBy(*table, 4, begin), 0.25f);
}

// From how many pushes on that an incarnation has counted already: one just
// before its count outgrows its bits, too.
class VersionsOfIncarnationsTest : public testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Pushes, VersionsOfIncarnationsTest,
                         testing::Values(0, (1 << kDenseCountBits) - 3));

TEST_P(VersionsOfIncarnationsTest, AreKnownToARestoredBlock) {
  const cluster::PartitionMap map = cluster::PartitionMap::Even(16, 1);
  // Generations are milliseconds.
  const auto make = [&](uint64_t generation, uint64_t pushes = 0) {
    return *DenseTable::Create(
        StaleConfig(), map, ServerIndex(0),
        FirstDenseVersion(Generation(generation)) + pushes);
  };
  const std::unique_ptr<DenseTable> first = make(7, GetParam());
  std::vector<float> values(kBlock);
  const uint64_t begin = first->Pull(BlockIndex(0), 0, values.data());
  MovedBy(*first, 1, begin);
  MovedBy(*first, 2, begin);
  first->Freeze(1);
  const DenseBlockCut cut = first->SaveBlock(BlockIndex(0), /*full=*/true);
  // The cut is at begin + 2. What follows it is in a log.
  const std::vector<uint64_t> logged = {begin + 2, begin + 1, begin + 3};
  std::vector<float> moved;
  for (size_t i = 0; i < logged.size(); ++i) {
    moved.push_back(MovedBy(*first, 3 + i, logged[i]));
  }
  EXPECT_FLOAT_EQ(moved[1], 1.0f / 3);
  const auto replayed = [&](uint64_t generation) {
    std::unique_ptr<DenseTable> table = make(generation);
    EXPECT_TRUE(table->RestoreBlock(BlockIndex(0), cut.state, cut.floats).ok());
    for (size_t i = 0; i < logged.size(); ++i) {
      EXPECT_FLOAT_EQ(MovedBy(*table, 3 + i, logged[i]), moved[i]) << i;
    }
    return table;
  };
  // The second incarnation is lost, too, before it has made a cut.
  const std::unique_ptr<DenseTable> second = replayed(70);
  const uint64_t known = second->Pull(BlockIndex(0), 0, values.data());
  EXPECT_EQ(known, FirstDenseVersion(Generation(70)) + 3);
  EXPECT_FLOAT_EQ(MovedBy(*second, 6, known - 1), 0.5f);
  const std::unique_ptr<DenseTable> third = replayed(90);
  EXPECT_FLOAT_EQ(MovedBy(*third, 6, known - 1), 0.5f);
}

struct RuleCase {
  std::string name;
  std::function<void(v1::OptimizerConfig*)> set;
  // One update of w and its state by g, in double; t counts from 1.
  std::function<void(double& w, double* state, double g, int t)> update;
};

std::vector<RuleCase> RuleCases() {
  return {
      {"sgd", [](v1::OptimizerConfig* o) { o->mutable_sgd(); },
       [](double& w, double*, double g, int) { w -= 0.1f * g; }},
      {"adagrad",
       [](v1::OptimizerConfig* o) {
         o->mutable_adagrad()->set_initial_accumulator(0.25f);
         o->mutable_adagrad()->set_epsilon(1e-3f);
       },
       [](double& w, double* state, double g, int t) {
         if (t == 1) state[0] = 0.25;
         state[0] += g * g;
         w -= 0.1f * g / (std::sqrt(state[0]) + 1e-3f);
       }},
      {"adam",
       [](v1::OptimizerConfig* o) {
         o->mutable_adam()->set_beta1(0.8f);
         o->mutable_adam()->set_beta2(0.95f);
         o->mutable_adam()->set_epsilon(1e-3f);
       },
       [](double& w, double* state, double g, int t) {
         const double b1 = 0.8f, b2 = 0.95f;
         state[0] = b1 * state[0] + (1 - b1) * g;
         state[1] = b2 * state[1] + (1 - b2) * g * g;
         w -= 0.1f * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t)) *
              state[0] / (std::sqrt(state[1]) + 1e-3f);
       }},
  };
}

TEST(DenseTableTest, PushesFollowALoopInDoublesAndAreBitwiseTheSameOnServers) {
  for (const RuleCase& rule : RuleCases()) {
    SCOPED_TRACE(rule.name);
    v1::TableConfig config = TwoParameters();
    rule.set(config.mutable_optimizer());
    const auto one = MakeServers(config, 1);
    const auto three = MakeServers(config, 3);
    const std::vector<float> initial = VectorOf(one);
    std::vector<double> expected(initial.begin(), initial.end());
    std::vector<std::array<double, 2>> state(kSize, {0, 0});
    for (int t = 1; t <= 20; ++t) {
      const std::vector<float> gradient = RandomVector(t);
      PushVector(one, gradient, t);
      PushVector(three, gradient, t);
      for (size_t i = 0; i < kSize; ++i) {
        rule.update(expected[i], state[i].data(), gradient[i], t);
      }
    }
    const std::vector<float> values = VectorOf(one);
    for (size_t i = 0; i < kSize; ++i) {
      ASSERT_NEAR(values[i], expected[i], 2e-4) << "float " << i;
    }
    EXPECT_EQ(VectorOf(three), values);
  }
}

// Bitwise: the rule itself, on a copy of each block.
TEST(DenseTableTest, EveryRuleUpdatesABlockAsItDoesByItself) {
  for (const v1::OptimizerConfig& optimizer : optim::OneOfEachRule()) {
    SCOPED_TRACE(optimizer.ShortDebugString());
    v1::TableConfig config = TwoParameters();
    *config.mutable_optimizer() = optimizer;
    const auto servers = MakeServers(config, 3);
    const optim::UpdateRule rule = optim::RuleOf(optimizer);
    const std::vector<float> initial = VectorOf(servers);
    std::vector<optim::Weights> blocks;
    for (size_t begin = 0; begin < kSize; begin += kBlock) {
      const size_t end = std::min<size_t>(begin + kBlock, kSize);
      blocks.emplace_back(rule, std::vector<float>(initial.begin() + begin,
                                                   initial.begin() + end));
    }
    for (int t = 1; t <= 8; ++t) {
      const std::vector<float> gradient = RandomVector(t);
      PushVector(servers, gradient, t);
      std::vector<float> expected;
      for (size_t b = 0; b < blocks.size(); ++b) {
        optim::Weights& block = blocks[b];
        const auto begin = gradient.begin() + b * kBlock;
        block.Apply(rule, t, {begin, begin + block.w.size()});
        expected.insert(expected.end(), block.w.begin(), block.w.end());
      }
      ASSERT_EQ(VectorOf(servers), expected) << "after push " << t;
    }
  }
}

TEST(DenseTableTest, PullLeavesValuesAloneWhenTheVersionIsKnown) {
  const auto table = pserver::MakeDense(pserver::DenseConfig(5, 5, -1));
  std::vector<float> values(5, 99);
  EXPECT_EQ(table->Pull(BlockIndex(0), 1, values.data()), 1u);
  EXPECT_EQ(values, std::vector<float>(5, 99));
  const std::vector<float> gradient = {1, 2, 3, 4, 5};
  const PushStamp stamp{WorkerIndex(0), Generation(1), Sequence(1)};
  EXPECT_TRUE(table->Push(BlockIndex(0), gradient.data(), {&stamp, 1}));
  EXPECT_EQ(table->Pull(BlockIndex(0), 1, values.data()), 2u);
  EXPECT_EQ(values, gradient);
}

TEST(DenseTableTest, BlockTakesAPushOnce) {
  const auto table = pserver::MakeDense(pserver::DenseConfig(4, 2, -1));
  const std::vector<float> gradient = {1, 1};
  const PushStamp first{WorkerIndex(0), Generation(1), Sequence(1)};
  const PushStamp second{WorkerIndex(1), Generation(1), Sequence(1)};
  EXPECT_TRUE(table->Push(BlockIndex(0), gradient.data(), {&first, 1}));
  EXPECT_FALSE(table->Push(BlockIndex(0), gradient.data(), {&first, 1}));
  EXPECT_EQ(pserver::BlockOf(*table, BlockIndex(0)), gradient);
  EXPECT_TRUE(table->HasApplied(BlockIndex(0), first));
  EXPECT_FALSE(table->HasApplied(BlockIndex(1), first))
      << "blocks remember for themselves";
  // A round with one new name is applied, and all its names are remembered.
  const std::vector<PushStamp> both = {first, second};
  EXPECT_TRUE(table->Push(BlockIndex(0), gradient.data(), both));
  EXPECT_FALSE(table->Push(BlockIndex(0), gradient.data(), both));
  EXPECT_TRUE(table->HasApplied(BlockIndex(0), second));
  EXPECT_EQ(pserver::BlockOf(*table, BlockIndex(0)),
            (std::vector<float>{2, 2}));
}

TEST(DenseTableTest, ConcurrentPushesAreAllAppliedAndPullsAreWhole) {
  constexpr int kThreads = 3;
  constexpr uint64_t kPushes = 300;
  const auto table = pserver::MakeDense(pserver::DenseConfig(4 * 32, 32, -1));
  const std::vector<float> ones(32, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; i <= kPushes; ++i) {
        const PushStamp stamp{WorkerIndex(t), Generation(1), Sequence(i)};
        table->Push(BlockIndex(i % 4), ones.data(), {&stamp, 1});
        const auto values = pserver::BlockOf(*table, BlockIndex((i + t) % 4));
        for (const float value : values) {
          ASSERT_EQ(value, values[0]) << "half a push was seen";
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t b = 0; b < 4; ++b) {
    EXPECT_EQ(pserver::BlockOf(*table, BlockIndex(b))[0],
              kThreads * kPushes / 4);
  }
}

TEST(DenseTableTest, SizesAddUp) {
  v1::TableConfig config = TwoParameters();
  config.mutable_optimizer()->mutable_adagrad();
  uint64_t bytes = 0;
  uint32_t blocks = 0;
  for (const auto& server : MakeServers(config, 3)) {
    EXPECT_EQ(server->num_blocks(), 16u);
    EXPECT_EQ(server->BlockSize(BlockIndex(0)), 64u);
    EXPECT_EQ(server->BlockSize(BlockIndex(15)), kSize - 15 * 64);
    EXPECT_FALSE(server->Owns(BlockIndex(16)));
    bytes += server->bytes();
    blocks += server->num_owned_blocks();
  }
  EXPECT_EQ(bytes, kSize * 2 * sizeof(float));
  EXPECT_EQ(blocks, 16u);
}

TEST(DenseTableTest, WrongConfigurationsAreInvalid) {
  const auto code_of = [](const v1::TableConfig& config) {
    return DenseTable::Create(config, cluster::PartitionMap::Even(16, 1),
                              ServerIndex(0))
        .status()
        .code();
  };
  const auto expect_invalid =
      [&](const std::string& what,
          const std::function<void(v1::TableConfig*)>& spoil) {
        v1::TableConfig config = TwoParameters();
        ASSERT_EQ(code_of(config), absl::StatusCode::kOk);
        spoil(&config);
        EXPECT_EQ(code_of(config), absl::StatusCode::kInvalidArgument) << what;
      };
  expect_invalid("sparse", [](v1::TableConfig* c) { c->mutable_sparse(); });
  expect_invalid("empty",
                 [](v1::TableConfig* c) { c->mutable_dense()->set_size(0); });
  expect_invalid("no block size", [](v1::TableConfig* c) {
    c->mutable_dense()->set_block_size(0);
  });
  expect_invalid("huge blocks", [](v1::TableConfig* c) {
    c->mutable_dense()->set_block_size(DenseTable::kMaxBlockFloats + 1);
  });
  expect_invalid("too many blocks", [](v1::TableConfig* c) {
    c->mutable_dense()->clear_parameters();
    c->mutable_dense()->set_size(~uint64_t{0});
  });
  expect_invalid("a gap between parameters", [](v1::TableConfig* c) {
    c->mutable_dense()->mutable_parameters(1)->set_offset(901);
  });
  expect_invalid("a rest without parameter", [](v1::TableConfig* c) {
    c->mutable_dense()->mutable_parameters(1)->set_shape(0, 102);
  });
  expect_invalid("a shape that overflows", [](v1::TableConfig* c) {
    c->mutable_dense()->mutable_parameters(1)->set_shape(0, ~uint64_t{0});
    c->mutable_dense()->mutable_parameters(1)->add_shape(~uint64_t{0});
  });
  expect_invalid("no rule",
                 [](v1::TableConfig* c) { c->mutable_optimizer()->Clear(); });
  expect_invalid("a bad initializer", [](v1::TableConfig* c) {
    c->mutable_dense()
        ->mutable_parameters(0)
        ->mutable_initializer()
        ->set_uniform_range(-1);
  });
}

}  // namespace
}  // namespace oarlock::sparse_table
