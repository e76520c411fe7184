// The worker's side of a cut: says when everything that this worker pushed
// before it is applied, and which examples that was
// (docs/design/0009-checkpoints.md).

#ifndef OARLOCK_WORKER_CUT_CUT_MARKER_H_
#define OARLOCK_WORKER_CUT_CUT_MARKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "client/parameter_client.h"
#include "data/order/example_intervals.h"
#include "worker/dense/dense_copy.h"
#include "worker/dense/dense_copy_pool.h"

namespace oarlock::worker {

// Thread-safe. Does nothing but push in a job that takes no cuts. In others a
// thread of its own marks, as soon as the clients tell of a newer cut.
//
// Async: the dense copies of the epoch under way are advanced to the cut, one
// after the other, each between two steps; the dense gradients that a copy has
// summed are pushed before, under its old number. The mark is made when all
// pushes with older numbers are answered. Without an epoch it is made at once.
// Sync: the mark tells the examples of the rounds up to the one that ends the
// cut, when this worker's part of that round is answered or it takes no part in
// rounds. Training waits for nothing.
//
// Invariants:
// 1. Every example of an acknowledged push of a step is told exactly once, with
// the
//    first mark whose cut its push is before.
// 2. A mark is made only if all pushes before its cut were applied: after a
//    push that failed, or dense gradients that were dropped, there is none any
//    more.
// 3. One thread at a time works on the copies of an epoch: the marker's, or the
//    one in EndEpoch.
class CutMarker {
 public:
  enum class Numbering {
    kByCut,    // async: a push says which cut it is after
    kByRound,  // sync
  };

  // Pushes the summed gradients of a dense copy, if it has any, under `cut`;
  // calls its `done` once. Returns without waiting.
  using Flush = std::function<void(DenseCopy* copy, uint64_t cut,
                                   client::ParameterClient::Done done)>;

  // Begins with job->first_cut() and observes both clients, which outlive this,
  // as does `clock`, by which it pauses between questions.
  CutMarker(client::ParameterClient* parameters, client::JobClient* job,
            Numbering numbering, const Clock& clock);
  // REQUIRES: no push is under way.
  ~CutMarker();

  CutMarker(const CutMarker&) = delete;
  CutMarker& operator=(const CutMarker&) = delete;

  // All steps of a worker that trains are pushed here: parameters->Push, and
  // `push.examples` are remembered as examples of `phase_name` ("train/0").
  void Push(const std::string& phase_name, const client::PushRequest& push,
            client::TableVersions* versions, std::shared_ptr<const void> memory,
            client::ParameterClient::Done done);

  // Async: a push that completes what a dead worker has left
  // (push_completion.h). It gets the number that pushes carry now and is
  // answered before this worker marks a newer one. No mark tells its examples:
  // the coordinator counted them as trained when it decided on the push
  // completion, and opens no cut before that is done.
  void SendCompletingPush(client::PushRequest push,
                          std::shared_ptr<const void> memory,
                          client::ParameterClient::Done done);

  // Async: an epoch begins; its copies get the current number. `flush` may be
  // called, from another thread, until EndEpoch returns.
  void BeginEpoch(DenseCopyPool* copies, Flush flush);
  // The compute threads are done. Flushes the copies, or with `failed` drops
  // what they hold.
  void EndEpoch(bool failed);

  // Sync: contributes from round `complete` + 1 on, or to none any more.
  void JoinedRounds(uint64_t complete);
  void LeftRounds();

  // Between epochs: tells the examples that no mark has told yet, for the next
  // cut to come, which may be opened when this worker is gone. A mark under way
  // is made first. Sync: so is that of a cut that was opened since the last
  // heartbeat, since rounds of this worker may lie behind it.
  absl::Status ReportRest() ABSL_LOCKS_EXCLUDED(mutex_);

  // The number that pushes carry now.
  uint64_t cut() const;

 private:
  // Examples per phase name.
  using Trained = std::map<std::string, data::ExampleIntervals>;

  // Sync: asks until the round of the newest cut is known, or it has been said
  // often enough that there is none: the cut was given up, or is older than all
  // rounds.
  absl::Status LearnRound() ABSL_LOCKS_EXCLUDED(mutex_);
  // parameters->Push, which is counted under `number` already.
  void Send(uint64_t number, const client::PushRequest& push,
            client::TableVersions* versions, std::shared_ptr<const void> memory,
            client::ParameterClient::Done done);
  void OnCut(uint64_t cut);
  void OnCutAndRound(uint64_t cut, uint64_t round);
  void Run();
  // A newer cut is known and can be worked on.
  bool MustMark() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Flushes all copies and advances them to `cut`.
  void AdvanceCopies(uint64_t cut);
  // Pushes that are before the mark under way: those with numbers below
  // this.
  uint64_t Limit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OlderPushesAnswered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what was trained before the limit.
  Trained TakeTrained(uint64_t limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the mark; when that fails its examples are kept for the next one.
  absl::Status Mark(uint64_t cut, uint64_t limit);

  client::ParameterClient* const parameters_;
  client::JobClient* const job_;
  const Numbering numbering_;
  const Clock& clock_;
  const bool takes_cuts_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Invariant 2.
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  // The newest one known, and in sync mode the round that ends it.
  uint64_t newest_ ABSL_GUARDED_BY(mutex_);
  uint64_t newest_round_ ABSL_GUARDED_BY(mutex_) = 0;
  // Sync: the newest one that was opened; its round may not be known yet.
  uint64_t opened_ ABSL_GUARDED_BY(mutex_);
  // The one that was marked or is being marked, and its round.
  uint64_t cut_ ABSL_GUARDED_BY(mutex_);
  uint64_t cut_round_ ABSL_GUARDED_BY(mutex_) = 0;
  // The marker's thread is at it.
  bool marking_ ABSL_GUARDED_BY(mutex_) = false;
  // What follows is by number: the push's cut, or its round.
  std::map<uint64_t, int> under_way_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Trained> trained_ ABSL_GUARDED_BY(mutex_);

  // Of the epoch under way; null: none.
  DenseCopyPool* copies_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Flush flush_ ABSL_GUARDED_BY(mutex_);
  // Whose thread works on the copies (invariant 3).
  bool copies_in_use_ ABSL_GUARDED_BY(mutex_) = false;

  bool in_rounds_ ABSL_GUARDED_BY(mutex_) = false;
  // The last round that this worker has no more to do with.
  uint64_t last_round_ ABSL_GUARDED_BY(mutex_) = 0;

  std::thread thread_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_CUT_CUT_MARKER_H_
