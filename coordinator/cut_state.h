// What the coordinator knows of cuts: their numbers, who has marked the one
// that is open, and which examples lie before it.

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
// A cut is open from Open to Close; one at a time. Numbers grow and are used
// once. In async mode a cut waits for the mark of every worker that was alive
// when it was opened and has not gone since; in sync mode for their reports of
// the rounds up to the one that ends it.
class CutState {
 public:
  // The newest cut, open or over.
  uint64_t newest() const { return newest_; }
  bool open() const { return open_; }
  // Sync: the round that ends the open cut; 0 before it is known.
  uint64_t round() const { return round_; }

  // Opens the next cut, for which the workers with these indices are waited
  // for. REQUIRES: none is open.
  uint64_t Open(std::set<uint32_t> workers);
  void SetRound(uint64_t round) { round_ = round; }
  // A worker's mark, or its report of what it trained before a cut that is yet
  // to come (newest() + 1). InvalidArgument for a later one, or for a range
  // without an end.
  absl::Status Mark(const v1::MarkCutRequest& request);
  // The worker's incarnation takes no more part.
  void Withdraw(uint32_t worker) { waited_for_.erase(worker); }
  // The open cut gets no checkpoint, for this reason. The first one stays.
  void EndEarly(std::string why);
  // Empty: it was not ended early.
  const std::string& ended_why() const { return ended_why_; }
  bool AllMarked() const { return waited_for_.empty(); }
  size_t WaitedFor() const { return waited_for_.size(); }
  // REQUIRES: not AllMarked().
  uint32_t FirstWaitedFor() const { return *waited_for_.begin(); }
  void Close();

  // Examples of a dead worker that are covered without a mark of it: before
  // newest() if no cut is open, else before the one after it.
  void Cover(const std::string& phase_name,
             const std::vector<v1::DataRange>& ranges);
  // Examples before newest(), by phase name.
  std::map<std::string, RangeSet> Covered() const;
  // Numbers up to this one have been used.
  void Skip(uint64_t largest) { newest_ = std::max(newest_, largest); }
  // Those of a checkpoint that the job goes on from.
  void Restore(const v1::CheckpointManifest& manifest);

  void Save(v1::SavedCutState* state) const;
  // Takes the place of what is there.
  void Load(const v1::SavedCutState& state);

 private:
  struct Report {
    // Of pushes before this cut.
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
  // Of cuts to come.
  std::vector<Report> later_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_CUT_STATE_H_
