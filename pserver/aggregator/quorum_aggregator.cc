#include "pserver/aggregator/quorum_aggregator.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "pserver/aggregator/push_stamp_of.h"

namespace oarlock::pserver {

QuorumAggregator::QuorumAggregator(sparse_table::DenseTable* table,
                                   const Clock& clock, Timer timer)
    : table_(table), clock_(clock) {
  OARLOCK_CHECK(table->config().dense().quorum() > 0);
  if (timer == Timer::kThread) {
    timer_ = std::make_unique<std::thread>([this] { RunTimer(); });
  }
}

QuorumAggregator::~QuorumAggregator() {
  Shutdown();
  if (timer_ != nullptr) timer_->join();
}

void QuorumAggregator::PushSparse(wire::PushSparseRequestView push,
                                  PushDone done) {
  OARLOCK_CHECK(false);  // Dense tables have quorums.
}

void QuorumAggregator::PushDense(wire::PushDenseRequestView push,
                                 PushDone done) {
  absl::StatusOr<PushOutcome> at_once;
  std::vector<Waiting> released;
  {
    absl::MutexLock lock(&mutex_);
    if (shut_down_) {
      at_once = absl::UnavailableError(
          "the server is shutting down; the push was not applied; send it "
          "again to the server's successor");
    } else {
      at_once = Hold(push);
      const PushStamp stamp = StampOf(push.header);
      // All blocks came before. They are applied, so there is nothing to wait
      // for, or they are held.
      if (at_once->duplicate_groups == push.blocks.size()) {
        if (!push.blocks.empty() && IsHeld(stamp, push.blocks[0])) {
          repeated_.push_back(
              {stamp, push.blocks[0], std::move(done), *at_once});
          done = nullptr;
        }
      } else {
        if (waiting_.empty()) first_arrival_ = clock_.Now();
        waiting_.push_back({stamp, push.blocks[0], std::move(done), *at_once});
        done = nullptr;
        if (push.header.completing_generation() == 0) {
          last_update_[stamp.worker] = updates_ + 1;
        }
        // All workers cut a push to this server into the same number of
        // messages.
        const size_t messages =
            std::max<size_t>(1, push.header.table_message_count());
        if (cut_open_ || IsDueWithIt(messages)) released = Release();
      }
    }
  }
  if (done != nullptr) done(std::move(at_once));
  Answer(std::move(released));
}

PushOutcome QuorumAggregator::Hold(const wire::PushDenseRequestView& push) {
  thread_local std::vector<float> gradient_scratch;

  const PushStamp stamp = StampOf(push.header);
  PushOutcome outcome;
  size_t begin = 0;
  for (const BlockIndex block : push.blocks) {
    const size_t size = table_->BlockSize(block);
    const float* gradients =
        push.values.Elements(begin, size, &gradient_scratch);
    // A push without a number of steps is of one step.
    if (!table_->Hold(block, gradients, stamp, std::max(1u, push.num_steps))) {
      ++outcome.duplicate_groups;
    }
    begin += size;
  }
  return outcome;
}

bool QuorumAggregator::IsHeld(const PushStamp& stamp,
                              BlockIndex first_block) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& held) {
                       return held.stamp.worker == stamp.worker &&
                              held.stamp.generation == stamp.generation &&
                              held.stamp.sequence == stamp.sequence &&
                              held.first_block == first_block;
                     });
}

size_t QuorumAggregator::PushesAtWork() const {
  size_t workers = 0;
  for (const auto& [worker, update] : last_update_) {
    workers += update + kUpdatesAbsent > updates_;
  }
  return workers * std::max(1u, table_->config().dense().pushes_per_worker());
}

size_t QuorumAggregator::QuorumOf(size_t pushes) const {
  // Computed in float, like the share: .7f of 10 is 7.
  return std::max<size_t>(
      1, static_cast<size_t>(std::ceil(table_->config().dense().quorum() *
                                       static_cast<float>(pushes))));
}

bool QuorumAggregator::IsDueWithIt(size_t messages) {
  const size_t pushes = PushesAtWork();
  const size_t quorum = timeout_.Quorum(messages * QuorumOf(pushes), updates_);
  if (waiting_.size() < quorum) return false;
  const bool is_alone = waiting_.size() <= messages;
  if (is_alone) {
    timeout_.OnSinglePush(updates_);
  } else if (!quorum_arrival_.has_value()) {
    quorum_arrival_ = clock_.Now();
    timeout_.OnQuorum(*quorum_arrival_ - first_arrival_, updates_);
  }
  return is_alone || waiting_.size() >= messages * pushes ||
         timeout_.grace() == absl::ZeroDuration();
}

absl::Time QuorumAggregator::DueTime() const {
  return quorum_arrival_.has_value() ? *quorum_arrival_ + timeout_.grace()
                                     : first_arrival_ + timeout_.hold();
}

std::vector<QuorumAggregator::Waiting> QuorumAggregator::Release() {
  table_->ApplyHeld();
  ++updates_;
  quorum_arrival_.reset();
  std::vector<Waiting> released = std::exchange(waiting_, {});
  std::move(repeated_.begin(), repeated_.end(), std::back_inserter(released));
  repeated_.clear();
  return released;
}

void QuorumAggregator::ReleaseDue() {
  std::vector<Waiting> released;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty() || clock_.Now() < DueTime()) return;
    if (!quorum_arrival_.has_value()) {
      timeout_.OnTimeout(waiting_.size(), updates_);
      ++overdue_updates_;
    }
    released = Release();
  }
  Answer(std::move(released));
}

void QuorumAggregator::Answer(std::vector<Waiting> waiting) {
  for (Waiting& push : waiting) push.done(push.outcome);
}

void QuorumAggregator::RunTimer() {
  // Whether there is something to time: another update than `seen` waits, or
  // its quorum has come.
  struct Watch {
    const QuorumAggregator* self;
    uint64_t seen;
    bool had_quorum;
  };
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](QuorumAggregator* self) {
            self->mutex_.AssertReaderHeld();
            return self->shut_down_ || !self->waiting_.empty();
          },
          this));
      if (shut_down_) return;
      Watch watch{this, updates_, quorum_arrival_.has_value()};
      clock_.AwaitUntil(&mutex_,
                        absl::Condition(
                            +[](Watch* watch) {
                              watch->self->mutex_.AssertReaderHeld();
                              return watch->self->shut_down_ ||
                                     watch->self->updates_ != watch->seen;
                            },
                            &watch),
                        DueTime());
    }
    ReleaseDue();
  }
}

uint64_t QuorumAggregator::Version() const {
  absl::MutexLock lock(&mutex_);
  return updates_;
}

uint64_t QuorumAggregator::HeldPushes() const {
  absl::MutexLock lock(&mutex_);
  return waiting_.size();
}

uint64_t QuorumAggregator::OverdueUpdates() const {
  absl::MutexLock lock(&mutex_);
  return overdue_updates_;
}

uint64_t QuorumAggregator::HoldRounds() {
  std::vector<Waiting> released;
  {
    absl::MutexLock lock(&mutex_);
    cut_open_ = true;
    if (!waiting_.empty()) released = Release();
  }
  Answer(std::move(released));
  return CompleteRounds();
}

void QuorumAggregator::AllowRounds(uint64_t last) {
  absl::MutexLock lock(&mutex_);
  if (last == kEveryRound) cut_open_ = false;
}

void QuorumAggregator::Restore(uint64_t version, uint64_t complete_rounds) {
  absl::MutexLock lock(&mutex_);
  updates_ = version;
}

void QuorumAggregator::EndReplay() {
  std::vector<Waiting> released;
  {
    absl::MutexLock lock(&mutex_);
    if (!waiting_.empty()) released = Release();
    last_update_.clear();
    timeout_ = QuorumTimeout();
    overdue_updates_ = 0;
  }
  Answer(std::move(released));
}

void QuorumAggregator::Shutdown() {
  std::vector<Waiting> released;
  {
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
    if (!waiting_.empty()) released = Release();
  }
  Answer(std::move(released));
}

absl::Duration QuorumAggregator::hold() const {
  absl::MutexLock lock(&mutex_);
  return timeout_.hold();
}

}  // namespace oarlock::pserver
