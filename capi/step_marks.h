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

  // A push begins. Returns the cut that it belongs after. `examples` are of the
  // phase; none: nobody is told.
  uint64_t Begin(const std::string& phase_name,
                 const std::vector<data::ExampleRange>& examples);
  void End(uint64_t cut, bool ok);
  // No push is under way.
  bool idle() const { return under_way_.empty(); }
  bool marking() const { return marking_; }

  // A cut was opened.
  void Observe(uint64_t cut) { newest_ = std::max(newest_, cut); }
  // The mark to make now, if there is one. No other one is due until EndMark.
  std::optional<Mark> TakeDue();
  // `ok` false: its examples are told with the next one.
  void EndMark(const Mark& mark, bool ok);
  // What no mark has told, for the next cut. REQUIRES: idle(), and no mark is
  // under way.
  std::optional<Mark> TakeRest();

 private:
  // What pushes before `cut` have trained.
  Mark Take(uint64_t cut);

  // The one that new pushes belong after.
  uint64_t cut_;
  uint64_t newest_;
  // It is to be marked, or is being marked.
  bool due_ = false;
  bool marking_ = false;
  bool failed_ = false;
  // By the cut that they belong after.
  std::map<uint64_t, int> under_way_;
  std::map<uint64_t, std::map<std::string, data::ExampleIntervals>> trained_;
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_STEP_MARKS_H_
