#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/dense_version.h"
#include "base/push_stamp.h"
#include "base/random.h"
#include "cluster/partition_map.h"
#include "sparse_table/dense/dense_table.h"
#include "tests/base/eventually.h"
#include "tests/optim/rule_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint64_t kSize = 143;
constexpr uint32_t kBlockSize = 16;
constexpr uint32_t kNumBlocks = 9;

struct Push {
  BlockIndex block;
  PushStamp stamp;
  uint32_t num_steps = 1;
  uint64_t seed = 0;
  // It is none: the worker's incarnations up to that of the stamp are
  // forgotten.
  bool forgets = false;
};

Push RandomPush(RandomSequence& random) {
  return {.block = BlockIndex(random.Below(kNumBlocks)),
          .stamp = {.worker = WorkerIndex(random.Below(3)),
                    .generation = Generation(1 + random.Below(2)),
                    .sequence = Sequence(1 + random.Below(120))},
          .num_steps = static_cast<uint32_t>(1 + random.Below(3)),
          .seed = random(),
          .forgets = false};
}

void Apply(const Push& push, DenseTable& table) {
  if (push.forgets) {
    return table.ForgetWorker(push.stamp.worker, push.stamp.generation);
  }
  std::vector<float> gradients(table.BlockSize(push.block));
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = RandomNormal(push.seed, i);
  }
  table.Push(push.block, gradients.data(), {&push.stamp, 1}, push.num_steps);
}

v1::TableConfig ConfigOf(const v1::OptimizerConfig& optimizer) {
  v1::TableConfig config = pserver::DenseConfig(kSize, kBlockSize, 0.1f);
  *config.mutable_optimizer() = optimizer;
  v1::DenseParameter* parameter = config.mutable_dense()->add_parameters();
  parameter->set_name("weight");
  parameter->add_shape(kSize);
  parameter->mutable_initializer()->set_uniform_range(0.5f);
  return config;
}

// All blocks, in a cut of which nothing is left.
std::vector<DenseBlockCut> ContentsOf(DenseTable& table) {
  constexpr uint64_t kLateCut = 1 << 20;
  std::vector<DenseBlockCut> blocks;
  table.Freeze(kLateCut);
  for (uint32_t b = 0; b < table.num_blocks(); ++b) {
    blocks.push_back(table.SaveBlock(BlockIndex(b), /*full=*/true));
  }
  table.Thaw(/*published=*/false);
  return blocks;
}

// Values, optimizer state, steps and windows are equal.
void ExpectSameContents(DenseTable& a, DenseTable& b) {
  const std::vector<DenseBlockCut> as = ContentsOf(a);
  const std::vector<DenseBlockCut> bs = ContentsOf(b);
  ASSERT_EQ(as.size(), bs.size());
  for (size_t i = 0; i < as.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "block " << i);
    ASSERT_EQ(as[i].floats, bs[i].floats);
    v1::DenseBlockState a_state = as[i].state;
    v1::DenseBlockState b_state = bs[i].state;
    EXPECT_EQ(pserver::BlockOf(a, BlockIndex(i)),
              pserver::BlockOf(b, BlockIndex(i)));
    a_state.clear_version();
    b_state.clear_version();
    EXPECT_EQ(a_state.ShortDebugString(), b_state.ShortDebugString());
  }
}

// A table under random pushes and cuts, the records of its cuts, and the
// history from which a table that was never frozen can be made.
class RandomLife {
 public:
  RandomLife(const v1::TableConfig& config, uint64_t seed)
      : config_(config), random_(seed), table_(pserver::MakeDense(config)) {}

  void Step() {
    const uint64_t dice = random_.Below(10);
    if (dice < 6) {
      Push push = RandomPush(random_);
      push.forgets = random_.Below(20) == 0;
      history_.push_back(push);
      Apply(push, *table_);
    } else if (!frozen_) {
      if (random_.Below(4) != 0) return;
      table_->Freeze(++cut_);
      frozen_ = true;
      at_freeze_ = history_.size();
      unsaved_.clear();
      states_.clear();
      for (uint32_t b = 0; b < kNumBlocks; ++b) unsaved_.push_back(b);
    } else if (!unsaved_.empty() && random_.Below(40) != 0) {
      SaveOne();
    } else {
      const bool published = unsaved_.empty() && random_.Below(4) != 0;
      table_->Thaw(published);
      frozen_ = false;
      if (published) {
        Publish();
      } else {
        records_.erase(records_.lower_bound({cut_, 0}), records_.end());
      }
    }
  }

  void ExpectPublishedIsTheHistory() const {
    if (published_.empty()) return;
    const auto expected = pserver::MakeDense(config_);
    for (size_t i = 0; i < published_at_; ++i) Apply(history_[i], *expected);
    const auto restored = pserver::MakeDense(config_);
    for (const auto& [block, state] : published_) {
      const auto record = records_.find({state.base_cut(), block});
      ASSERT_NE(record, records_.end())
          << "block " << block << " of cut " << state.base_cut();
      const absl::Status status =
          restored->RestoreBlock(BlockIndex(block), state, record->second);
      ASSERT_TRUE(status.ok()) << status;
    }
    ExpectSameContents(*expected, *restored);
    // A log may begin before the cut: what the cut has is left alone. Of a
    // worker that was forgotten nothing comes.
    for (size_t i = published_at_ / 2; i < published_at_; ++i) {
      if (!IsForgotten(i)) Apply(history_[i], *restored);
    }
    for (size_t i = published_at_; i < history_.size(); ++i) {
      Apply(history_[i], *expected);
      Apply(history_[i], *restored);
    }
    ExpectSameContents(*expected, *restored);
  }

  int num_published() const { return num_published_; }
  int num_unchanged() const { return num_unchanged_; }

 private:
  void SaveOne() {
    const size_t i = random_.Below(unsaved_.size());
    const uint32_t block = unsaved_[i];
    unsaved_.erase(unsaved_.begin() + i);
    DenseBlockCut saved =
        table_->SaveBlock(BlockIndex(block), /*full=*/random_.Below(8) == 0);
    if (saved.floats.empty()) {
      ++num_unchanged_;
      EXPECT_LT(saved.state.base_cut(), cut_);
    } else {
      EXPECT_EQ(saved.state.base_cut(), cut_);
      records_[{cut_, block}] = std::move(saved.floats);
    }
    states_[block] = std::move(saved.state);
  }

  // Whether history_[i] forgets a worker, or its worker is forgotten between it
  // and the published cut.
  bool IsForgotten(size_t i) const {
    const PushStamp& stamp = history_[i].stamp;
    return std::any_of(history_.begin() + i, history_.begin() + published_at_,
                       [&](const Push& later) {
                         return later.forgets &&
                                later.stamp.worker == stamp.worker &&
                                later.stamp.generation >= stamp.generation;
                       });
  }

  void Publish() {
    ++num_published_;
    published_ = states_;
    published_at_ = at_freeze_;
  }

  const v1::TableConfig config_;
  RandomSequence random_;
  const std::unique_ptr<DenseTable> table_;
  std::vector<Push> history_;

  uint64_t cut_ = 0;
  bool frozen_ = false;
  size_t at_freeze_ = 0;
  std::vector<uint32_t> unsaved_;
  std::map<uint32_t, v1::DenseBlockState> states_;

  // By cut and block.
  std::map<std::pair<uint64_t, uint32_t>, std::vector<float>> records_;
  std::map<uint32_t, v1::DenseBlockState> published_;
  size_t published_at_ = 0;
  int num_published_ = 0;
  int num_unchanged_ = 0;
};

TEST(DenseTableCutTest, APublishedCutIsTheHistoryUpToItsFreeze) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  uint64_t seed = kSeed;
  for (const v1::OptimizerConfig& optimizer : optim::OneOfEachRule()) {
    SCOPED_TRACE(optimizer.ShortDebugString());
    RandomLife life(ConfigOf(optimizer), ++seed);
    for (int step = 0; step < 1500; ++step) {
      life.Step();
      if (step % 100 == 99) life.ExpectPublishedIsTheHistory();
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(life.num_published(), 10);
    EXPECT_GE(life.num_unchanged(), 10);
  }
}

TEST(DenseTableCutTest, BlocksOfOneServerAreSavedAndOthersDoNotMatter) {
  v1::TableConfig config = ConfigOf(optim::OneOfEachRule().front());
  const auto whole = pserver::MakeDense(config);
  const std::vector<DenseBlockCut> expected = ContentsOf(*whole);
  uint32_t num_saved = 0;
  for (uint32_t server = 0; server < 3; ++server) {
    const auto table = pserver::MakeDense(config, 3, server);
    table->Freeze(1);
    for (uint32_t b = 0; b < kNumBlocks; ++b) {
      if (!table->Owns(BlockIndex(b))) continue;
      const DenseBlockCut saved = table->SaveBlock(BlockIndex(b), false);
      EXPECT_EQ(saved.state.digest(), expected[b].state.digest());
      EXPECT_EQ(saved.floats, expected[b].floats);
      ++num_saved;
    }
    table->Thaw(true);
  }
  EXPECT_EQ(num_saved, kNumBlocks);
}

TEST(DenseTableCutTest, DigestsTellBlocksStepsAndFloatsApartButNotVersions) {
  const v1::TableConfig config = pserver::DenseConfig(8, 4, -1);
  const auto digests = [&](uint64_t first_version, uint32_t num_steps,
                           float gradient) {
    auto table = DenseTable::Create(config, cluster::PartitionMap::Even(16, 1),
                                    ServerIndex(0), first_version);
    const std::vector<float> gradients(4, gradient);
    const PushStamp stamp{WorkerIndex(0), Generation(1), Sequence(1)};
    for (uint32_t b = 0; b < 2; ++b) {
      (*table)->Push(BlockIndex(b), gradients.data(), {&stamp, 1}, num_steps);
    }
    const std::vector<DenseBlockCut> cut = ContentsOf(**table);
    return std::pair(cut[0].state.digest(), cut[1].state.digest());
  };
  const auto usual = digests(1, 1, 1);
  EXPECT_NE(usual.first, usual.second) << "equal floats of different blocks";
  EXPECT_EQ(digests(1000, 1, 1), usual);
  EXPECT_NE(digests(1, 2, 1).first, usual.first);
  EXPECT_NE(digests(1, 1, 2).first, usual.first);
}

TEST(DenseTableCutTest, AVersionThatAWorkerKeptIsNeverMetAgain) {
  const v1::TableConfig config = pserver::DenseConfig(2, 2, -1);
  const auto incarnation = [&](uint64_t generation) {
    return *DenseTable::Create(config, cluster::PartitionMap::Even(16, 1),
                               ServerIndex(0),
                               FirstDenseVersion(Generation(generation)));
  };
  const auto push = [](DenseTable& table, uint64_t sequence, float gradient) {
    const std::vector<float> gradients(2, gradient);
    const PushStamp stamp{WorkerIndex(0), Generation(1), Sequence(sequence)};
    table.Push(BlockIndex(0), gradients.data(), {&stamp, 1});
  };
  const auto first = incarnation(1'700'000'000'000);
  push(*first, 1, 1);
  const std::vector<DenseBlockCut> cut = ContentsOf(*first);
  // The worker sees pushes that the cut does not have.
  push(*first, 2, 10);
  std::vector<float> values(2);
  const uint64_t known = first->Pull(BlockIndex(0), 0, values.data());
  EXPECT_EQ(values[0], 11);
  for (int more = 0; more < 3; ++more) {
    const auto next = incarnation(1'700'000'000'001 + more);
    ASSERT_TRUE(
        next->RestoreBlock(BlockIndex(0), cut[0].state, cut[0].floats).ok());
    for (uint64_t sequence = 2; sequence < 50; ++sequence) {
      std::vector<float> pulled(2);
      EXPECT_GT(next->Pull(BlockIndex(0), known, pulled.data()), known);
      EXPECT_NE(pulled[0], 0) << "values were left out of the response";
      push(*next, sequence, 100);
    }
  }
}

TEST(DenseTableCutTest, WhatDoesNotFitTheTableIsDataLossAndChangesNothing) {
  v1::TableConfig config = pserver::DenseConfig(kSize, kBlockSize, 0.1f);
  config.mutable_optimizer()->mutable_adagrad();
  const auto source = pserver::MakeDense(config);
  RandomSequence random(3);
  for (int i = 0; i < 50; ++i) Apply(RandomPush(random), *source);
  const std::vector<DenseBlockCut> cut = ContentsOf(*source);
  ASSERT_GE(cut[1].state.windows_size(), 2);

  const auto table = pserver::MakeDense(config);
  const auto untouched = pserver::MakeDense(config);
  const auto expect_loss = [&](const std::string& what, DenseBlockCut bad) {
    const absl::Status status =
        table->RestoreBlock(BlockIndex(1), bad.state, bad.floats);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what;
    EXPECT_NE(status.message().find("table 2 'net'"), std::string::npos);
    EXPECT_NE(status.message().find("block 1"), std::string::npos);
  };
  expect_loss("another block", cut[2]);
  DenseBlockCut bad = cut[1];
  bad.floats.pop_back();
  expect_loss("a float is missing", bad);
  bad.floats.clear();
  expect_loss("no floats", bad);
  bad = cut[1];
  bad.floats[7] += 1;
  expect_loss("a float is wrong", bad);
  bad = cut[1];
  bad.state.set_steps(bad.state.steps() + 1);
  expect_loss("steps are wrong", bad);
  bad = cut[1];
  bad.state.mutable_windows(0)->set_highest(0);
  expect_loss("a window of no push", bad);
  bad = cut[1];
  bad.state.mutable_windows(0)->set_applied(2);
  expect_loss("the highest was not applied", bad);
  bad = cut[1];
  bad.state.mutable_windows()->SwapElements(0, 1);
  expect_loss("windows out of order", bad);
  bad = cut[1];
  *bad.state.mutable_windows(1) = bad.state.windows(0);
  expect_loss("a window twice", bad);
  ExpectSameContents(*table, *untouched);
  EXPECT_TRUE(
      table->RestoreBlock(BlockIndex(1), cut[1].state, cut[1].floats).ok());
}

// Each push adds one, so a whole block says how many there were.
TEST(DenseTableCutTest, CutsUnderConcurrentPushesAreWholeAndOfTheirInstant) {
  constexpr int kThreads = 3;
  constexpr uint32_t kBlocks = 4;
  constexpr uint32_t kFloats = 512;
  constexpr int kCuts = 40;
  const auto table =
      pserver::MakeDense(pserver::DenseConfig(kBlocks * kFloats, kFloats, -1));
  const std::vector<float> ones(kFloats, 1);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; !stop.load(); ++i) {
        const PushStamp stamp{WorkerIndex(t), Generation(1), Sequence(i)};
        for (uint32_t b = 0; b < kBlocks; ++b) {
          table->Push(BlockIndex(b), ones.data(), {&stamp, 1});
        }
      }
    });
  }
  const auto counts = [&] {
    std::vector<float> result;
    for (uint32_t b = 0; b < kBlocks; ++b) {
      result.push_back(pserver::BlockOf(*table, BlockIndex(b))[0]);
    }
    return result;
  };
  for (int cut = 1; cut <= kCuts; ++cut) {
    const std::vector<float> before = counts();
    table->Freeze(cut);
    const std::vector<float> after = counts();
    for (uint32_t b = 0; b < kBlocks; ++b) {
      // Some blocks are set aside by pushes, some are not.
      if (cut % 2 == 0) {
        EXPECT_TRUE(Eventually([&] {
          return pserver::BlockOf(*table, BlockIndex(b))[0] > after[b];
        }));
      }
      const DenseBlockCut saved = table->SaveBlock(BlockIndex(b), true);
      const float count = saved.floats[0];
      EXPECT_GE(count, before[b]);
      EXPECT_LE(count, after[b]);
      EXPECT_EQ(saved.floats, std::vector<float>(kFloats, count));
      EXPECT_EQ(saved.state.steps(), count);
      uint64_t pushes = 0;
      for (const auto& window : saved.state.windows()) {
        pushes += window.highest();
      }
      EXPECT_EQ(pushes, count);
    }
    table->Thaw(cut % 3 != 0);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace oarlock::sparse_table
