// The parts that this worker has leased.

#ifndef OARLOCK_CAPI_LEASES_H_
#define OARLOCK_CAPI_LEASES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/push_stamp.h"
#include "capi/work_progress.h"
#include "data/batch.h"
#include "proto/config/client_config.pb.h"
#include "proto/v1/coordinator_ranges.pb.h"

namespace oarlock::capi {

// What is leased: one push has the gradients of its examples.
struct Part {
  std::string phase_name;
  WorkId work;
  // In the headers of pushes.
  uint32_t epoch = 0;
  // Examples that rows, and dense parameters, need gradients of.
  std::vector<data::ExampleRange> examples;
  std::vector<data::ExampleRange> dense_examples;
  // The push of a dead worker that this one completes.
  std::optional<PushStamp> completes;
  // A dead worker had it: no mark tells its examples.
  bool repairs = false;
};

// Not thread-safe.
class Leases {
 public:
  // Takes the first part of a response; nothing: it has none. REQUIRES: it has
  // at most one.
  std::optional<v1::LeasedPart> Add(const std::string& phase_name,
                                    const WorkId& work, uint32_t epoch,
                                    const v1::LeaseRangesResponse& response);

  // A part that nobody waited for, until the next caller takes it.
  void Keep(const std::string& phase_name, const v1::LeasedPart& part) {
    kept_[phase_name].push_back(part);
  }
  std::optional<v1::LeasedPart> TakeKept(const std::string& phase_name);

  // The part is pushed now: no other push may have it. Nothing: there is no
  // such lease, or its push has begun.
  std::optional<Part> Take(uint64_t lease);
  // Its push was answered OK: the coordinator is told with the next call.
  void SetDone(const std::string& phase_name, uint64_t lease);

  std::vector<uint64_t> TakeDone(const std::string& phase_name);
  // The call that told it failed.
  void ReturnDone(const std::string& phase_name,
                  const std::vector<uint64_t>& leases);
  // Phases with parts of which the coordinator was not told that they are done.
  std::vector<std::string> PhasesWithDone() const;

  // The phase of the work's present turn: "train/0", then "train/0#2".
  std::string PhaseName(const WorkId& work) const;
  // The work is done anew, in a phase of its own.
  void BeginAgain(const WorkId& work) { ++turns_[NameOf(work)]; }
  // The run before has left this phase in part: its work goes on with that
  // turn.
  void GoOnWith(const std::string& phase_name);

  // The phase is over for all workers.
  void SetFinished(const std::string& phase_name) {
    finished_.insert(phase_name);
  }
  bool IsFinished(const std::string& phase_name) const {
    return finished_.count(phase_name) > 0;
  }

 private:
  std::map<uint64_t, Part> parts_;
  std::map<std::string, std::vector<uint64_t>> done_;
  std::map<std::string, std::deque<v1::LeasedPart>> kept_;
  std::set<std::string> finished_;
  // By the work's name: turns that were begun before the present one.
  std::map<std::string, uint32_t> turns_;
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_LEASES_H_
