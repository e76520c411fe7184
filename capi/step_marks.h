// Which cut a worker's pushes belong after, and which examples it tells with
// its next mark (docs/design/0009-checkpoints.md).

#ifndef OARLOCK_CAPI_STEP_MARKS_H_
#define OARLOCK_CAPI_STEP_MARKS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/order/example_intervals.h"
#include "proto/v1/coordinator_ranges.pb.h"

namespace oarlock::capi {

// Not thread-safe. Begin gives a push its cut and counts it in one step. It may
// get its sequence later: a mark waits for what is counted, whatever order the
// sequences have.
//
// Async: a push says which cut it belongs after. Sync: its round decides, and a
// cut ends with a round, which is known a moment after the cut was opened; a
// mark is due when this worker's part of that round is answered, or it takes no
// part.
//
// Invariants:
// 1. A mark is made when all pushes that belong before its cut are answered OK;
//    after one that failed there is none any more.
// 2. The examples of a push are told once, with the first mark whose cut it is
//    before.
class StepMarks {
 public:
  struct Mark {
    uint64_t cut = 0;
    std::map<std::string, data::ExampleIntervals> trained;

    std::vector<v1::TrainedExamples> ToProto() const;
  };

  // `first_cut`: the newest one when the worker registered.
  explicit StepMarks(uint64_t first_cut)
      : cut_(first_cut), newest_(first_cut) {}

  // A push begins, of this round, 0 in async mode. Returns its number: the cut
  // that it belongs after, or the round. `examples` are of the phase; none:
  // nobody is told.
  uint64_t Begin(const std::string& phase_name,
                 const std::vector<data::ExampleRange>& examples,
                 uint64_t round = 0);
  // `number`: what Begin returned.
  void End(uint64_t number, bool ok);
  // No push is under way.
  bool idle() const { return under_way_.empty(); }
  bool marking() const { return marking_; }

  // A cut was opened, which ends with this round; 0: async, or not known yet.
  void Observe(uint64_t cut, uint64_t round);
  // Sync: this worker's pushes are of rounds after `complete`, or it has left.
  void JoinedRounds(uint64_t complete);
  void LeftRounds() { in_rounds_ = false; }
  // Sync: a cut was opened, and its round is not known.
  bool AwaitsRound() const { return opened_ > newest_; }
  // The mark to make now, if there is one. No other one is due until EndMark.
  std::optional<Mark> TakeDue();
  // `ok` false: its examples are told with the next one.
  void EndMark(const Mark& mark, bool ok);
  // What no mark has told, for the next cut. REQUIRES: idle(), and no mark is
  // under way.
  std::optional<Mark> TakeRest();

 private:
  // What pushes with numbers below `limit` have trained.
  Mark Take(uint64_t cut, uint64_t limit);

  // The one that new pushes belong after.
  uint64_t cut_;
  uint64_t newest_;
  // Sync.
  bool sync_ = false;
  bool in_rounds_ = false;
  uint64_t opened_ = 0;
  uint64_t newest_round_ = 0;
  // The last round that this worker has no more to do with.
  uint64_t last_round_ = 0;
  // It is to be marked, or is being marked.
  bool due_ = false;
  bool marking_ = false;
  bool failed_ = false;
  // By number.
  std::map<uint64_t, int> under_way_;
  std::map<uint64_t, std::map<std::string, data::ExampleIntervals>> trained_;
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_STEP_MARKS_H_
