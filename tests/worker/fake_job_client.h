// A coordinator's client that answers from memory.

#ifndef OARLOCK_TESTS_WORKER_FAKE_JOB_CLIENT_H_
#define OARLOCK_TESTS_WORKER_FAKE_JOB_CLIENT_H_

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "client/job_client.h"

namespace oarlock::worker {

// One thread at a time.
class FakeJobClient : public client::JobClient {
 public:
  // One LeaseRanges call.
  struct LeaseCall {
    std::string phase_name;
    uint32_t max_items = 0;
    std::vector<uint64_t> done;
    // Reports before it.
    int num_reports = 0;
  };
  // What there is to lease; a call with max_items n takes the first n, push
  // completions before items.
  std::deque<client::PushCompletion> push_completions;
  std::deque<data::DataRange> items;
  // Called by every LeaseRanges, before it looks.
  std::function<void()> on_lease;
  bool exhausted_when_empty = true;
  absl::Status lease_status;
  absl::Status alive;
  std::vector<LeaseCall> lease_calls;
  int num_reports = 0;

  WorkerIndex worker_index() const override { return WorkerIndex(0); }
  uint32_t num_workers() const override { return 1; }
  void SetProgressSource(ProgressSource) override {}
  void SetCutObserver(CutObserver) override {}
  absl::Status Report() override {
    ++num_reports;
    return absl::OkStatus();
  }
  absl::Status MarkCut(uint64_t,
                       const std::vector<v1::TrainedExamples>&) override {
    return absl::OkStatus();
  }
  absl::Status Barrier(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> JoinRounds() override { return 0; }
  absl::Status LeaveRounds() override { return absl::OkStatus(); }
  // The ranges of a phase follow those that there are, with leases of their
  // own.
  absl::StatusOr<data::ExampleIntervals> DefinePhase(
      const std::string& phase_name, const std::vector<data::DataRange>& ranges,
      uint64_t, const std::string&) override {
    if (!phases_.insert(phase_name).second) return data::ExampleIntervals();
    for (const data::DataRange& range : ranges) {
      items.push_back(range);
      items.back().lease = ++last_lease_;
    }
    return data::ExampleIntervals();
  }
  absl::StatusOr<client::Leases> LeaseRanges(
      const std::string& phase_name, uint32_t max_items,
      const std::vector<uint64_t>& done) override {
    lease_calls.push_back({phase_name, max_items, done, num_reports});
    if (on_lease) on_lease();
    if (!lease_status.ok()) return lease_status;
    client::Leases leases;
    for (; max_items > 0 && !push_completions.empty(); --max_items) {
      leases.push_completions.push_back(push_completions.front());
      push_completions.pop_front();
    }
    for (; max_items > 0 && !items.empty(); --max_items) {
      leases.items.push_back(items.front());
      items.pop_front();
    }
    leases.exhausted =
        items.empty() && push_completions.empty() && exhausted_when_empty;
    return leases;
  }
  absl::Status Checkpoint() override {
    return absl::FailedPreconditionError("a fake job makes no checkpoints");
  }
  absl::StatusOr<v1::JobStatusResponse> GetJobStatus() override {
    return v1::JobStatusResponse();
  }
  absl::Status Alive() const override { return alive; }
  absl::Status Finish(const absl::Status&) override { return absl::OkStatus(); }

 private:
  std::set<std::string> phases_;
  uint64_t last_lease_ = 0;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_FAKE_JOB_CLIENT_H_
