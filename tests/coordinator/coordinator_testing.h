// A job as its coordinator sees it, for tests.

#ifndef OARLOCK_TESTS_COORDINATOR_COORDINATOR_TESTING_H_
#define OARLOCK_TESTS_COORDINATOR_COORDINATOR_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/coordinator.h"

namespace oarlock::coordinator {

inline constexpr absl::Duration kLease = absl::Seconds(10);

// A job with a fake clock. Server 0 reports whenever time goes by.
class CoordinatorTest : public ::testing::Test {
 protected:
  explicit CoordinatorTest(uint32_t num_workers = 3, uint32_t num_servers = 1)
      : clock_(absl::FromUnixMillis(1'000'000)) {
    options_.num_workers = num_workers;
    options_.num_servers = num_servers;
    options_.lease = kLease;
    options_.restart_grace = absl::Seconds(20);
    options_.start_timeout = absl::Seconds(100);
    options_.drain_grace = absl::Seconds(3);
    coordinator_.emplace(options_, clock_);
  }

  // `registration` names the call; 0: a new one.
  absl::StatusOr<v1::RegisterWorkerResponse> RegisterAs(uint32_t worker,
                                                        uint64_t registration) {
    v1::RegisterWorkerRequest request;
    request.set_worker_index(worker);
    request.set_host("h");
    request.set_pid(100 + worker);
    request.set_registration_id(registration);
    return coordinator_->RegisterWorker(request);
  }
  uint64_t Register(uint32_t worker) {
    const auto response = RegisterAs(worker, 0);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->worker_generation() : 0;
  }
  absl::StatusOr<v1::HeartbeatResponse> Beat(uint32_t worker,
                                             uint64_t generation) {
    v1::HeartbeatRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    return coordinator_->Heartbeat(request);
  }
  absl::Status Finish(uint32_t worker, uint64_t generation,
                      bool succeeded = true, const std::string& reason = "") {
    v1::FinishWorkerRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_succeeded(succeeded);
    request.set_reason(reason);
    return coordinator_->FinishWorker(request);
  }
  // The heartbeat of a server that acts by the response to its last one: it
  // gives the ledgers that were wanted, empty ones but for those in ledgers_.
  v1::ServerHeartbeatResponse ServerBeat(uint32_t server,
                                         uint64_t generation = 1) {
    v1::ServerHeartbeatRequest request;
    request.set_server_index(server);
    request.set_server_generation(generation);
    request.set_workers_version(versions_[server]);
    for (const v1::WorkerIncarnation& worker : wanted_[server]) {
      v1::WorkerLedger* const ledger = request.add_ledgers();
      *ledger->mutable_worker() = worker;
      for (const v1::WorkerLedger& known : ledgers_[server]) {
        if (known.worker().worker_index() == worker.worker_index() &&
            known.worker().worker_generation() == worker.worker_generation()) {
          *ledger = known;
        }
      }
    }
    const auto response = coordinator_->ServerHeartbeat(request);
    EXPECT_TRUE(response.ok()) << response.status();
    versions_[server] = response->workers_version();
    wanted_[server].assign(response->wanted_ledgers().begin(),
                           response->wanted_ledgers().end());
    return *response;
  }
  absl::Status Leave(uint32_t server) {
    v1::ServerHeartbeatRequest request;
    request.set_server_index(server);
    request.set_server_generation(1);
    request.set_leaving(true);
    return coordinator_->ServerHeartbeat(request).status();
  }
  // The outcome of a barrier call: nothing while it waits.
  using Outcome = std::shared_ptr<std::optional<absl::Status>>;
  Outcome Arrive(const std::string& name, uint32_t worker, uint64_t generation,
                 int wait_ms = 50'000, uint32_t trained_epochs = 0) {
    v1::BarrierRequest request;
    request.set_name(name);
    request.set_trained_epochs(trained_epochs);
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_wait_ms(wait_ms);
    auto outcome = std::make_shared<std::optional<absl::Status>>();
    coordinator_->Barrier(request, [outcome](absl::Status status) {
      EXPECT_FALSE(outcome->has_value()) << "answered twice";
      *outcome = std::move(status);
    });
    return outcome;
  }
  absl::StatusOr<v1::LeaseRangesResponse> Lease(
      uint32_t worker, uint64_t generation, std::vector<uint64_t> done = {}) {
    v1::LeaseRangesRequest request;
    request.set_phase_name(phase_name_);
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_max_ranges(1);
    request.set_request(++last_request_);
    for (uint64_t lease : done) request.add_done(lease);
    return coordinator_->LeaseRanges(request);
  }
  void Define(int num_ranges) {
    v1::DefinePhaseRequest request;
    request.set_phase_name(phase_name_);
    for (int i = 0; i < num_ranges; ++i) request.add_ranges()->set_begin(i);
    ASSERT_TRUE(coordinator_->DefinePhase(request).ok());
  }
  // Time goes by in steps, as it does where a thread checks deadlines. The
  // workers in `alive` renew their leases.
  void Pass(absl::Duration time,
            const std::vector<std::pair<uint32_t, uint64_t>>& alive = {}) {
    for (absl::Duration step = absl::Seconds(1); time > absl::ZeroDuration();
         time -= step) {
      clock_.Advance(step);
      for (const auto& [worker, generation] : alive) {
        ASSERT_TRUE(Beat(worker, generation).ok());
      }
      for (uint32_t i = 0; i < options_.num_servers; ++i) {
        if (!silent_[i]) ServerBeat(i);
      }
      coordinator_->CheckDeadlines();
    }
  }
  v1::WorkerState::Life LifeOf(uint32_t worker) {
    const v1::JobStatusResponse status = coordinator_->JobStatus({});
    for (const v1::WorkerState& state : status.workers()) {
      if (state.worker_index() == worker) return state.life();
    }
    return v1::WorkerState::LIFE_UNSPECIFIED;
  }

  FakeClock clock_;
  CoordinatorOptions options_;
  std::optional<Coordinator> coordinator_;
  uint64_t versions_[4] = {};
  std::vector<v1::WorkerIncarnation> wanted_[4];
  std::vector<v1::WorkerLedger> ledgers_[4];
  bool silent_[4] = {};
  uint64_t last_request_ = 0;
  std::string phase_name_ = "train/0";
};

class TwoServerCoordinatorTest : public CoordinatorTest {
 protected:
  TwoServerCoordinatorTest() : CoordinatorTest(2, 2) {}
};

// Whether it is there and has this code.
inline bool Is(const std::shared_ptr<std::optional<absl::Status>>& outcome,
               absl::StatusCode code) {
  return outcome->has_value() && (*outcome)->code() == code;
}

}  // namespace oarlock::coordinator

#endif  // OARLOCK_TESTS_COORDINATOR_COORDINATOR_TESTING_H_
