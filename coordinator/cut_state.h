// The coordinator's record of cuts: their numbers, which workers have marked
// the open cut, and which examples belong before it.

#ifndef OARLOCK_COORDINATOR_CUT_STATE_H_
#define OARLOCK_COORDINATOR_CUT_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/ranges/range_set.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/coordinator_ranges.pb.h"

namespace oarlock::coordinator {

// Not thread-safe: the coordinator guards it.
//
// A cut is open from Open to Close; at most one is open at a time. Numbers grow
// and are used once. In async mode a cut waits for the mark of every worker
// that was alive at Open and has not been withdrawn since. In sync mode it
// waits for the workers' reports of the rounds up to the round that ends it.
class CutState {
 public:
  // The newest cut, open or over.
  uint64_t newest() const { return newest_; }
  bool open() const { return open_; }
  // Sync: the round that ends the open cut; 0 before it is known.
  uint64_t round() const { return round_; }

  // Opens the next cut, which waits for the workers with these indices. Returns
  // its number. REQUIRES: no cut is open.
  uint64_t Open(std::set<uint32_t> workers);
  void SetRound(uint64_t round) { round_ = round; }
  // Adds a worker's mark of a cut, or its report of what it trained before the
  // cut newest() + 1, which is not open yet. InvalidArgument for a larger
  // number, or for a range whose end is not after its begin.
  absl::Status Mark(const v1::MarkCutRequest& request);
  // The open cut no longer waits for this worker: its incarnation is gone.
  void Withdraw(uint32_t worker) { waited_for_.erase(worker); }
  // The open cut gets no checkpoint, for this reason. The first reason stays.
  void EndEarly(std::string why);
  // Empty: it was not ended early.
  const std::string& ended_why() const { return ended_why_; }
  bool AllMarked() const { return waited_for_.empty(); }
  size_t WaitedFor() const { return waited_for_.size(); }
  // REQUIRES: not AllMarked().
  uint32_t FirstWaitedFor() const { return *waited_for_.begin(); }
  void Close();
  // What the run before has covered says nothing of the next one. REQUIRES: no
  // cut is open.
  void BeginNextRun() {
    covered_.clear();
    later_.clear();
  }

  // Adds examples of a dead worker that are covered without its mark. They
  // belong before newest() if no cut is open, else before the cut after it.
  void Cover(const std::string& phase_name,
             const std::vector<v1::DataRange>& ranges);
  // Examples before newest(), by phase name.
  std::map<std::string, RangeSet> Covered() const;
  // Numbers up to this one have been used.
  void Skip(uint64_t largest) { newest_ = std::max(newest_, largest); }
  // Continues from a checkpoint: takes its cut and its coverage.
  void Restore(const v1::CheckpointManifest& manifest);

  void Save(v1::SavedCutState* state) const;
  // Replaces what is there.
  void Load(const v1::SavedCutState& state);

 private:
  struct Report {
    // The examples belong before this cut.
    uint64_t cut = 0;
    v1::TrainedExamples trained;
  };

  uint64_t newest_ = 0;
  bool open_ = false;
  uint64_t round_ = 0;
  std::set<uint32_t> waited_for_;
  std::string ended_why_;
  // By phase name, before newest_.
  std::map<std::string, RangeSet> covered_;
  // Reports for cuts that are not open yet.
  std::vector<Report> later_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_CUT_STATE_H_
