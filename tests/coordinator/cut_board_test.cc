#include "coordinator/cut_board.h"

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
                        const std::string& work = "train/0") {
  v1::MarkCutRequest request;
  request.set_worker_index(worker);
  request.set_worker_generation(1);
  request.set_cut(cut);
  v1::TrainedExamples* trained = request.add_trained();
  trained->set_work(work);
  for (const uint64_t example : examples) {
    v1::WorkRange* range = trained->add_ranges();
    range->set_begin(example);
    range->set_end(example + 1);
  }
  return request;
}

std::set<uint64_t> Examples(const CutBoard& board,
                            const std::string& work = "train/0") {
  std::set<uint64_t> examples;
  const auto covered = board.Covered();
  const auto found = covered.find(work);
  if (found == covered.end()) return examples;
  for (const v1::WorkRange& range : found->second.ranges()) {
    for (uint64_t i = range.begin(); i < range.end(); ++i) examples.insert(i);
  }
  return examples;
}

TEST(CutBoardTest, ACutWaitsForTheWorkersItWasOpenedFor) {
  CutBoard board;
  EXPECT_EQ(board.Open({0, 2}), 1);
  EXPECT_FALSE(board.AllMarked());
  ASSERT_TRUE(board.Mark(Mark(0, 1)).ok());
  EXPECT_FALSE(board.AllMarked());
  EXPECT_EQ(board.FirstWaitedFor(), 2);
  board.Withdraw(2);
  EXPECT_TRUE(board.AllMarked());
  board.Close();
  EXPECT_EQ(board.Open({}), 2);
  EXPECT_TRUE(board.AllMarked());
}

TEST(CutBoardTest, AMarkOfAnOlderCutDoesNotCountForTheOpenOne) {
  CutBoard board;
  board.Open({0});
  board.Close();
  board.Open({0});
  ASSERT_TRUE(board.Mark(Mark(0, 1, {7})).ok());
  EXPECT_FALSE(board.AllMarked());
  EXPECT_EQ(Examples(board), std::set<uint64_t>{7});
}

TEST(CutBoardTest, AMarkBeyondTheNextCutIsRefused) {
  CutBoard board;
  board.Open({0});
  EXPECT_TRUE(absl::IsInvalidArgument(board.Mark(Mark(0, 3))));
}

TEST(CutBoardTest, ARangeWithoutAnEndIsRefusedAsAWhole) {
  CutBoard board;
  board.Open({0});
  v1::MarkCutRequest mark = Mark(0, 1, {1, 2});
  mark.mutable_trained(0)->mutable_ranges(1)->set_end(0);
  EXPECT_TRUE(absl::IsInvalidArgument(board.Mark(mark)));
  EXPECT_TRUE(Examples(board).empty());
  EXPECT_FALSE(board.AllMarked());
}

TEST(CutBoardTest, ACheckpointsExamplesAndNumberComeBack) {
  CutBoard before;
  before.Open({0});
  ASSERT_TRUE(before.Mark(Mark(0, 1, {1, 2, 5})).ok());
  v1::CheckpointManifest manifest;
  manifest.set_cut(41);
  for (const auto& [name, covered] : before.Covered()) {
    v1::WorkCoverage* work = manifest.add_works();
    work->set_work(name);
    for (const v1::WorkRange& range : covered.ranges()) {
      *work->add_covered() = range;
    }
  }
  CutBoard after;
  after.Restore(manifest);
  EXPECT_EQ(Examples(after), Examples(before));
  EXPECT_EQ(after.Open({}), 42);
}

TEST(CutBoardTest, NumbersThatWereUsedAreSkipped) {
  CutBoard board;
  board.Skip(9);
  board.Skip(4);
  EXPECT_EQ(board.Open({}), 10);
}

// Workers report examples before this cut or the next, cuts come and go: a cut
// covers what was reported for it and those before, nothing else.
TEST(CutBoardTest, ExamplesBelongBeforeTheCutTheyWereReportedFor) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    CutBoard board;
    // By example: the cut that it was reported for.
    std::map<uint64_t, uint64_t> model;
    uint64_t next = 0;
    for (int i = 0; i < 200; ++i) {
      if (random() % 10 == 0) {
        if (board.open()) {
          board.Close();
        } else {
          board.Open({0, 1});
        }
      }
      const uint64_t cut = board.newest() == 0 || random() % 2 == 0
                               ? board.newest() + 1
                               : board.newest();
      next += 1 + random() % 2;
      ASSERT_TRUE(board.Mark(Mark(random() % 2, cut, {next})).ok());
      model[next] = cut;
      std::set<uint64_t> wanted;
      for (const auto& [example, of] : model) {
        if (of <= board.newest()) wanted.insert(example);
      }
      ASSERT_EQ(Examples(board), wanted) << "at " << i;
    }
  }
}

TEST(CutBoardTest, WhatIsSettledWhileACutIsOpenBelongsToTheNextOne) {
  v1::WorkRange range;
  range.set_begin(3);
  range.set_end(5);
  CutBoard board;
  board.Cover("train/0", {range});
  EXPECT_EQ(Examples(board), (std::set<uint64_t>{3, 4}));
  board.Open({});
  range.set_end(6);
  board.Cover("train/0", {range});
  board.Close();
  EXPECT_EQ(Examples(board), (std::set<uint64_t>{3, 4}));
  board.Open({});
  EXPECT_EQ(Examples(board), (std::set<uint64_t>{3, 4, 5}));
}

TEST(CutBoardTest, ACutThatIsEndedEarlyKeepsTheFirstReason) {
  CutBoard board;
  board.Open({0});
  EXPECT_EQ(board.ended_why(), "");
  board.EndEarly("one");
  board.EndEarly("two");
  EXPECT_EQ(board.ended_why(), "one");
  board.Close();
  EXPECT_EQ(board.ended_why(), "");
}

}  // namespace
}  // namespace oarlock::coordinator
