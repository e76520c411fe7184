// Async mode: every push is applied when it arrives, by the thread that
// brings it.

#ifndef OARLOCK_PSERVER_AGGREGATOR_ASYNC_AGGREGATOR_H_
#define OARLOCK_PSERVER_AGGREGATOR_ASYNC_AGGREGATOR_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/push_stamp.h"
#include "base/push_window.h"
#include "pserver/aggregator/aggregator.h"
#include "pserver/aggregator/logical_clock.h"
#include "sparse_table/dense/dense_table.h"
#include "sparse_table/sparse_table.h"

namespace oarlock::pserver {

// Thread-safe. Calls `done` before a push returns. Two pushes of different
// threads meet only in the table's own locks.
class AsyncAggregator : public Aggregator {
 public:
  // The table and the clock must outlive this. No clock: logical time is 0.
  explicit AsyncAggregator(sparse_table::SparseTable* table,
                           const LogicalClock* clock = nullptr)
      : sparse_(table), clock_(clock) {}
  explicit AsyncAggregator(sparse_table::DenseTable* table,
                           const LogicalClock* clock = nullptr)
      : dense_(table), clock_(clock) {}

  void PushSparse(wire::PushSparseRequestView push, PushDone done) override;
  void PushDense(wire::PushDenseRequestView push, PushDone done) override;

  void SetRoundMember(WorkerIndex worker, Generation generation,
                      bool joins) override {}
  void ForgetWorker(WorkerIndex worker, Generation last) override {
    absl::MutexLock lock(&counted_mutex_);
    counted_.Forget(worker, last);
  }
  uint64_t CompleteRounds() const override { return 0; }
  uint64_t Version() const override {
    return version_.load(std::memory_order_relaxed);
  }
  uint64_t HeldPushes() const override { return 0; }
  void Restore(uint64_t version, uint64_t complete_rounds) override {
    version_.store(version, std::memory_order_relaxed);
  }
  void Shutdown() override {
    shut_down_.store(true, std::memory_order_relaxed);
  }

 private:
  absl::StatusOr<PushOutcome> ApplySparse(
      const wire::PushSparseRequestView& push);
  absl::StatusOr<PushOutcome> ApplyDense(
      const wire::PushDenseRequestView& push);
  // Counts the push once, however many messages it has.
  void CountPush(const PushStamp& stamp);

  // Constant; one of them is set.
  sparse_table::SparseTable* const sparse_ = nullptr;
  sparse_table::DenseTable* const dense_ = nullptr;
  const LogicalClock* const clock_;

  std::atomic<bool> shut_down_ = false;
  std::atomic<uint64_t> version_ = 0;
  absl::Mutex counted_mutex_;
  PushWindows counted_ ABSL_GUARDED_BY(counted_mutex_);
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_ASYNC_AGGREGATOR_H_
