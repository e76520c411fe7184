// What a CutMarker lies between: a coordinator that takes cuts, servers that
// answer in any order, and compute threads that train.

#ifndef OARLOCK_TESTS_WORKER_CUT_CUT_MARKER_TESTING_H_
#define OARLOCK_TESTS_WORKER_CUT_CUT_MARKER_TESTING_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/call_and_wait.h"
#include "base/random.h"
#include "tests/worker/cut_oracle.h"
#include "tests/worker/fake_job_client.h"
#include "worker/cut/cut_marker.h"

namespace oarlock::worker {

// The phase name of all pushes.
inline constexpr char kPhaseName[] = "train/0";

// A coordinator that takes cuts and calls `on_mark`.
class CuttingJob : public FakeJobClient {
 public:
  using OnMark = std::function<absl::Status(
      uint64_t, const std::vector<v1::TrainedExamples>&)>;
  explicit CuttingJob(OnMark on_mark) : on_mark_(std::move(on_mark)) {}

  void Heartbeat(uint64_t cut, uint64_t round) {
    absl::MutexLock lock(&mutex_);
    observer_(cut, round);
  }

  // What the heartbeats that the worker asks for say, one after the other, the
  // last one for ever.
  void Say(std::deque<std::pair<uint64_t, uint64_t>> cuts_and_rounds) {
    absl::MutexLock lock(&mutex_);
    responses_ = std::move(cuts_and_rounds);
  }

  bool takes_cuts() const override { return true; }
  absl::Status Report() override {
    absl::MutexLock lock(&mutex_);
    if (responses_.empty()) return absl::OkStatus();
    const auto [cut, round] = responses_.front();
    if (responses_.size() > 1) responses_.pop_front();
    observer_(cut, round);
    return absl::OkStatus();
  }
  void SetCutObserver(CutObserver observer) override {
    absl::MutexLock lock(&mutex_);
    observer_ = std::move(observer);
  }
  absl::Status MarkCut(
      uint64_t cut, const std::vector<v1::TrainedExamples>& trained) override {
    return on_mark_(cut, trained);
  }

 private:
  const OnMark on_mark_;
  absl::Mutex mutex_;
  CutObserver observer_;
  std::deque<std::pair<uint64_t, uint64_t>> responses_;
};

// Servers that answer pushes one at a time, in any order, from a thread of
// their own, and hold those that the oracle says.
class Servers : public client::ParameterClient {
 public:
  Servers(CutOracle* oracle, uint64_t seed) : oracle_(oracle), random_(seed) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Servers() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  // The next push that is answered fails.
  void FailNext() { fail_next_ = true; }
  // The marked cut is frozen: what was held for it goes on.
  void ReleaseHeld() {
    absl::MutexLock lock(&mutex_);
    for (Waiting& waiting : held_) waiting_.push_back(std::move(waiting));
    held_.clear();
  }
  // Responses name the newest cut; so does this.
  void Tell() {
    absl::MutexLock lock(&observer_mutex_);
    if (observer_) observer_(oracle_->newest());
  }

  absl::Status CreateTable(const v1::TableConfig&) override {
    return absl::OkStatus();
  }
  void SetCutObserver(CutObserver observer) override {
    absl::MutexLock lock(&observer_mutex_);
    observer_ = std::move(observer);
  }
  int partition_bits() const override { return 0; }
  void PullSparse(TableId, const client::KeyBatch&, float*,
                  client::TableVersions*, std::shared_ptr<const void>,
                  Done done) override {
    done(absl::OkStatus());
  }
  void PullDense(TableId, client::DenseReplica*, std::shared_ptr<const void>,
                 Done done) override {
    done(absl::OkStatus());
  }
  void Push(const client::PushRequest& push, client::TableVersions*,
            std::shared_ptr<const void> memory, Done done) override {
    absl::MutexLock lock(&mutex_);
    std::deque<Waiting>& to = oracle_->Arrives(push) ? held_ : waiting_;
    to.push_back({push, std::move(memory), std::move(done)});
  }

 private:
  struct Waiting {
    client::PushRequest push;
    std::shared_ptr<const void> memory;
    Done done;
  };

  void Run() {
    for (;;) {
      Waiting next;
      {
        absl::MutexLock lock(&mutex_);
        const auto ready = [this] { return stopping_ || !waiting_.empty(); };
        mutex_.Await(absl::Condition(&ready));
        if (waiting_.empty()) return;
        const auto it = waiting_.begin() +
                        static_cast<long>(random_.Below(waiting_.size()));
        next = std::move(*it);
        waiting_.erase(it);
      }
      oracle_->Applied(next.push);
      Tell();
      next.done(fail_next_.exchange(false)
                    ? absl::UnavailableError("as the test says")
                    : absl::OkStatus());
    }
  }

  CutOracle* const oracle_;
  std::atomic<bool> fail_next_ = false;
  absl::Mutex mutex_;
  RandomSequence random_;
  bool stopping_ = false;
  std::deque<Waiting> waiting_;
  std::deque<Waiting> held_;
  absl::Mutex observer_mutex_;
  CutObserver observer_;
  std::thread thread_;
};

// With one parameter and a plain rule.
inline std::vector<std::unique_ptr<DenseCopy>> MakeDenseCopies(
    int count, uint32_t interval) {
  v1::OptimizerConfig config;
  config.set_learning_rate(.1f);
  config.mutable_sgd();
  client::DenseReplica replica;
  replica.values = {0};
  replica.block_versions = {1};
  std::vector<std::unique_ptr<DenseCopy>> copies;
  for (int i = 0; i < count; ++i) {
    copies.push_back(std::make_unique<DenseCopy>(
        *optim::UpdateRule::Create(config), replica, interval));
  }
  return copies;
}

// As an epoch does it: compute threads that compute one example a step.
class Epoch {
 public:
  Epoch(CutMarker* marker, int num_copies, int num_permits, uint32_t interval)
      : marker_(marker),
        pool_(MakeDenseCopies(num_copies, interval), num_permits) {
    marker->BeginEpoch(&pool_, [this](DenseCopy* copy, uint64_t cut,
                                      client::ParameterClient::Done done) {
      if (!copy->HasGradients()) return done(absl::OkStatus());
      const DenseCopy::Exchange exchange = copy->TakeExchange(kDenseTable);
      client::PushRequest push;
      push.cut = cut;
      push.dense.push_back(exchange.gradients);
      push.dense_examples = exchange.examples;
      marker_->Push(kPhaseName, push, nullptr, exchange.memory,
                    std::move(done));
    });
  }

  void Run(int num_threads, int steps_per_thread) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < num_threads; ++thread) {
      threads.emplace_back([this, steps_per_thread] {
        for (int i = 0; i < steps_per_thread; ++i) Step();
      });
    }
    for (std::thread& thread : threads) thread.join();
    pool_.WaitForAllPermits();
  }

  void Step() {
    DenseCopy* const copy = pool_.Acquire();
    copy->gradients()[0] = 1;
    const uint64_t example = next_example_++;
    copy->StepDone({{{0, example, example + 1}}});
    pool_.AcquirePermit(*copy);
    client::PushRequest push;
    push.cut = copy->cut();
    push.examples.push_back({0, example, example + 1});
    if (!copy->ExchangeIsDue()) {
      marker_->Push(kPhaseName, push, nullptr, nullptr,
                    [this](const absl::Status&) { pool_.ReleasePermit(); });
    } else {
      const DenseCopy::Exchange exchange = copy->TakeExchange(kDenseTable);
      push.dense.push_back(exchange.gradients);
      push.dense_examples = exchange.examples;
      CallAndWait([&](client::ParameterClient::Done done) {
        marker_->Push(kPhaseName, push, nullptr, exchange.memory,
                      std::move(done));
      }).IgnoreError();
      pool_.ReleasePermit();
    }
    pool_.Release(copy);
  }

  void End(bool failed = false) { marker_->EndEpoch(failed); }

 private:
  static constexpr TableId kDenseTable = TableId(3);

  CutMarker* const marker_;
  DenseCopyPool pool_;
  // Numbers are those of the whole test.
  inline static std::atomic<uint64_t> next_example_ = 0;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_CUT_CUT_MARKER_TESTING_H_
