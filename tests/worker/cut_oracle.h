// What must hold of every push and every mark of one worker, async mode.

#ifndef OARLOCK_TESTS_WORKER_CUT_ORACLE_H_
#define OARLOCK_TESTS_WORKER_CUT_ORACLE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/parameter_client.h"
#include "proto/v1/coordinator_ranges.pb.h"

namespace oarlock::worker {

// Stands for coordinator and servers: opens a cut every so many pushes, says
// which pushes a server would hold, and compares marks with what it has seen.
// Thread-safe.
class CutOracle {
 public:
  // Opens no cut by itself with `pushes_per_cut` 0.
  explicit CutOracle(uint64_t pushes_per_cut, bool has_dense_table = true)
      : pushes_per_cut_(pushes_per_cut), has_dense_table_(has_dense_table) {}

  // A push arrives. True: it belongs after the open cut and waits for its mark.
  bool Arrives(const client::PushRequest& push) {
    absl::MutexLock lock(&mutex_);
    EXPECT_GE(push.cut, marked_) << "a push is late for its cut";
    EXPECT_LE(push.cut, newest_);
    Tally& tally = tallies_[push.cut];
    ++tally.under_way;
    // The coordinator counted those of a push completion, and no mark tells
    // them.
    if (!push.completes.has_value()) AddSteps(push, &tally);
    if (pushes_per_cut_ > 0 && ++pushes_ % pushes_per_cut_ == 0 &&
        newest_ == marked_) {
      ++newest_;
    }
    return push.cut > marked_;
  }
  void Applied(const client::PushRequest& push) {
    absl::MutexLock lock(&mutex_);
    --tallies_[push.cut].under_way;
  }
  // Everything before `cut` is said to be applied, which was `trained` beyond
  // what was told before.
  void Marked(uint64_t cut, const std::vector<v1::TrainedExamples>& trained) {
    absl::MutexLock lock(&mutex_);
    std::set<Example> expected;
    std::set<Example> dense;
    uint64_t steps = 0;
    uint64_t dense_steps = 0;
    for (auto it = tallies_.begin(); it != tallies_.end() && it->first < cut;
         ++it) {
      EXPECT_EQ(it->second.under_way, 0) << "cut " << cut;
      steps += it->second.steps;
      dense_steps += it->second.dense_steps;
      expected.merge(it->second.unreported);
      dense.merge(it->second.dense);
    }
    if (has_dense_table_) {
      EXPECT_EQ(dense_steps, steps) << "cut " << cut << " tears steps apart";
    }
    EXPECT_EQ(dense, expected) << "cut " << cut << " tears steps apart";
    std::set<Example> reported;
    for (const v1::TrainedExamples& phase : trained) {
      for (const v1::DataRange& range : phase.ranges()) {
        for (uint64_t i = range.begin(); i < range.end(); ++i) {
          EXPECT_TRUE(
              reported.emplace(phase.phase_name(), range.source(), i).second);
        }
      }
    }
    EXPECT_EQ(reported, expected) << "cut " << cut;
    num_reported_ += reported.size();
    // One that is to come is not open yet.
    if (cut > newest_) return;
    marked_ = cut;
    ++num_marks_;
  }

  void OpenCut() {
    absl::MutexLock lock(&mutex_);
    ++newest_;
  }
  uint64_t newest() const {
    absl::MutexLock lock(&mutex_);
    return newest_;
  }
  uint64_t marked() const {
    absl::MutexLock lock(&mutex_);
    return marked_;
  }
  uint64_t num_marks() const {
    absl::MutexLock lock(&mutex_);
    return num_marks_;
  }
  // Examples that were pushed, and those that marks have told.
  size_t num_seen() const {
    absl::MutexLock lock(&mutex_);
    return seen_.size();
  }
  size_t num_reported() const {
    absl::MutexLock lock(&mutex_);
    return num_reported_;
  }

 private:
  using Example = std::tuple<std::string, uint32_t, uint64_t>;
  struct Tally {
    int under_way = 0;
    uint64_t steps = 0;
    // Whose dense gradients were pushed.
    uint64_t dense_steps = 0;
    std::set<Example> unreported;
    // Whose dense gradients came, and were not before a mark.
    std::set<Example> dense;
  };

  void AddSteps(const client::PushRequest& push, Tally* tally)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!push.examples.empty()) ++tally->steps;
    for (const client::DenseGradients& dense : push.dense) {
      tally->dense_steps += dense.num_steps;
    }
    const std::string phase_name = absl::StrCat("train/", push.epoch);
    for (const data::ExampleRange& range : push.examples) {
      for (uint64_t i = range.begin; i < range.end; ++i) {
        EXPECT_TRUE(seen_.emplace(push.epoch, range.source, i).second);
        tally->unreported.emplace(phase_name, range.source, i);
      }
    }
    for (const data::ExampleRange& range : push.dense_examples) {
      for (uint64_t i = range.begin; i < range.end; ++i) {
        EXPECT_TRUE(tally->dense.emplace(phase_name, range.source, i).second);
      }
    }
  }

  const uint64_t pushes_per_cut_;
  const bool has_dense_table_;
  mutable absl::Mutex mutex_;
  uint64_t pushes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t marked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_marks_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_reported_ ABSL_GUARDED_BY(mutex_) = 0;
  // By the pushes' cut.
  std::map<uint64_t, Tally> tallies_ ABSL_GUARDED_BY(mutex_);
  std::set<std::tuple<uint32_t, uint32_t, uint64_t>> seen_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_CUT_ORACLE_H_
