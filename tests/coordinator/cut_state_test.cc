#include "coordinator/cut_state.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oarlock::coordinator {
namespace {

v1::MarkCutRequest Mark(uint32_t worker, uint64_t cut,
                        const std::vector<uint64_t>& examples = {},
                        const std::string& phase_name = "train/0") {
  v1::MarkCutRequest request;
  request.set_worker_index(worker);
  request.set_worker_generation(1);
  request.set_cut(cut);
  v1::TrainedExamples* trained = request.add_trained();
  trained->set_phase_name(phase_name);
  for (const uint64_t example : examples) {
    v1::DataRange* range = trained->add_ranges();
    range->set_begin(example);
    range->set_end(example + 1);
  }
  return request;
}

std::set<uint64_t> Examples(const CutState& cuts,
                            const std::string& phase_name = "train/0") {
  std::set<uint64_t> examples;
  const auto covered = cuts.Covered();
  const auto found = covered.find(phase_name);
  if (found == covered.end()) return examples;
  for (const v1::DataRange& range : found->second.ranges()) {
    for (uint64_t i = range.begin(); i < range.end(); ++i) examples.insert(i);
  }
  return examples;
}

TEST(CutStateTest, ACutWaitsForTheWorkersItWasOpenedFor) {
  CutState cuts;
  EXPECT_EQ(cuts.Open({0, 2}), 1);
  EXPECT_FALSE(cuts.AllMarked());
  ASSERT_TRUE(cuts.Mark(Mark(0, 1)).ok());
  EXPECT_FALSE(cuts.AllMarked());
  EXPECT_EQ(cuts.FirstWaitedFor(), 2);
  cuts.Withdraw(2);
  EXPECT_TRUE(cuts.AllMarked());
  cuts.Close();
  EXPECT_EQ(cuts.Open({}), 2);
  EXPECT_TRUE(cuts.AllMarked());
}

TEST(CutStateTest, AMarkOfAnOlderCutDoesNotCountForTheOpenOne) {
  CutState cuts;
  cuts.Open({0});
  cuts.Close();
  cuts.Open({0});
  ASSERT_TRUE(cuts.Mark(Mark(0, 1, {7})).ok());
  EXPECT_FALSE(cuts.AllMarked());
  EXPECT_EQ(Examples(cuts), std::set<uint64_t>{7});
}

TEST(CutStateTest, AMarkBeyondTheNextCutIsRefused) {
  CutState cuts;
  cuts.Open({0});
  EXPECT_TRUE(absl::IsInvalidArgument(cuts.Mark(Mark(0, 3))));
}

TEST(CutStateTest, ARangeWithoutAnEndIsRefusedAsAWhole) {
  CutState cuts;
  cuts.Open({0});
  v1::MarkCutRequest mark = Mark(0, 1, {1, 2});
  mark.mutable_trained(0)->mutable_ranges(1)->set_end(0);
  EXPECT_TRUE(absl::IsInvalidArgument(cuts.Mark(mark)));
  EXPECT_TRUE(Examples(cuts).empty());
  EXPECT_FALSE(cuts.AllMarked());
}

TEST(CutStateTest, ACheckpointsExamplesAndNumberComeBack) {
  CutState before;
  before.Open({0});
  ASSERT_TRUE(before.Mark(Mark(0, 1, {1, 2, 5})).ok());
  v1::CheckpointManifest manifest;
  manifest.set_cut(41);
  for (const auto& [name, covered] : before.Covered()) {
    v1::PhaseCoverage* coverage = manifest.add_works();
    coverage->set_work(name);
    for (const v1::DataRange& range : covered.ranges()) {
      *coverage->add_covered() = range;
    }
  }
  CutState after;
  after.Restore(manifest);
  EXPECT_EQ(Examples(after), Examples(before));
  EXPECT_EQ(after.Open({}), 42);
}

TEST(CutStateTest, NumbersThatWereUsedAreSkipped) {
  CutState cuts;
  cuts.Skip(9);
  cuts.Skip(4);
  EXPECT_EQ(cuts.Open({}), 10);
}

// Workers report examples before this cut or the next, cuts come and go: a cut
// covers what was reported for it and those before, nothing else.
TEST(CutStateTest, ExamplesBelongBeforeTheCutTheyWereReportedFor) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    CutState cuts;
    // By example: the cut that it was reported for.
    std::map<uint64_t, uint64_t> model;
    uint64_t next = 0;
    for (int i = 0; i < 200; ++i) {
      if (random() % 10 == 0) {
        if (cuts.open()) {
          cuts.Close();
        } else {
          cuts.Open({0, 1});
        }
      }
      const uint64_t cut = cuts.newest() == 0 || random() % 2 == 0
                               ? cuts.newest() + 1
                               : cuts.newest();
      next += 1 + random() % 2;
      ASSERT_TRUE(cuts.Mark(Mark(random() % 2, cut, {next})).ok());
      model[next] = cut;
      std::set<uint64_t> wanted;
      for (const auto& [example, of] : model) {
        if (of <= cuts.newest()) wanted.insert(example);
      }
      ASSERT_EQ(Examples(cuts), wanted) << "at " << i;
    }
  }
}

TEST(CutStateTest, WhatIsRecoveredWhileACutIsOpenBelongsToTheNextOne) {
  v1::DataRange range;
  range.set_begin(3);
  range.set_end(5);
  CutState cuts;
  cuts.Cover("train/0", {range});
  EXPECT_EQ(Examples(cuts), (std::set<uint64_t>{3, 4}));
  cuts.Open({});
  range.set_end(6);
  cuts.Cover("train/0", {range});
  cuts.Close();
  EXPECT_EQ(Examples(cuts), (std::set<uint64_t>{3, 4}));
  cuts.Open({});
  EXPECT_EQ(Examples(cuts), (std::set<uint64_t>{3, 4, 5}));
}

TEST(CutStateTest, ACutThatIsEndedEarlyKeepsTheFirstReason) {
  CutState cuts;
  cuts.Open({0});
  EXPECT_EQ(cuts.ended_why(), "");
  cuts.EndEarly("one");
  cuts.EndEarly("two");
  EXPECT_EQ(cuts.ended_why(), "one");
  cuts.Close();
  EXPECT_EQ(cuts.ended_why(), "");
}

}  // namespace
}  // namespace oarlock::coordinator
