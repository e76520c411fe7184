// A coordinator of a job that stays, and workers of its runs.

#ifndef OARLOCK_TESTS_COORDINATOR_COORDINATOR_STAY_TESTING_H_
#define OARLOCK_TESTS_COORDINATOR_COORDINATOR_STAY_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/coordinator.h"
#include "tests/coordinator/coordinator_testing.h"

namespace oarlock::coordinator {

class CoordinatorStayTest : public CoordinatorTest {
 protected:
  CoordinatorStayTest() : CoordinatorTest(/*num_workers=*/1) {
    options_.stay = true;
    options_.max_workers = 8;
    coordinator_.emplace(options_, clock_);
    ServerBeat(0);
  }

  absl::StatusOr<v1::RegisterWorkerResponse> Join(
      uint32_t rank, uint32_t world, bool only_if_free = true, uint64_t run = 0,
      v1::RegisterWorkerRequest::OnDeath on_death =
          v1::RegisterWorkerRequest::ON_DEATH_UNSPECIFIED,
      const std::string& name = "") {
    v1::RegisterWorkerRequest request;
    request.set_run_name(name);
    request.set_worker_index(rank);
    request.set_host("h");
    request.set_pid(100 + rank);
    request.set_registration_id(++last_registration_);
    request.set_min_workers(world);
    request.set_max_workers(world);
    request.set_only_if_free(only_if_free);
    request.set_run(run);
    request.set_on_death(on_death);
    return coordinator_->RegisterWorker(request);
  }
  // Joins the run of that name, once what the run before has left is known.
  absl::StatusOr<v1::RegisterWorkerResponse> JoinNamed(
      uint32_t rank, uint32_t world, const std::string& name) {
    const auto join = [&] {
      return Join(rank, world, /*only_if_free=*/true, /*run=*/0,
                  v1::RegisterWorkerRequest::ON_DEATH_UNSPECIFIED, name);
    };
    absl::StatusOr<v1::RegisterWorkerResponse> response = join();
    for (int i = 0; i < 3 && absl::IsUnavailable(response.status()); ++i) {
      ServerBeat(0);
      response = join();
    }
    return response;
  }
  // Joins, once what the run before has left is known.
  v1::RegisterWorkerResponse MustJoin(uint32_t rank, uint32_t world) {
    absl::StatusOr<v1::RegisterWorkerResponse> response = Join(rank, world);
    for (int i = 0; i < 3 && absl::IsUnavailable(response.status()); ++i) {
      ServerBeat(0);
      response = Join(rank, world);
    }
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::RegisterWorkerResponse();
  }
  // Phase "mine/0" of parts of ten examples; its epoch.
  uint32_t DefineMine(int num_ranges) {
    v1::DefinePhaseRequest define;
    define.set_phase_name("mine/0");
    define.set_pushes(true);
    for (int i = 0; i < num_ranges; ++i) {
      v1::DataRange* const range = define.add_ranges();
      range->set_begin(i * 10);
      range->set_end(i * 10 + 10);
    }
    const auto defined = coordinator_->DefinePhase(define);
    EXPECT_TRUE(defined.ok()) << defined.status();
    phase_name_ = "mine/0";
    return defined.ok() ? defined->epoch() : 0;
  }
  // A server's ledger of the worker, who has pushed nothing.
  v1::WorkerLedger* AddLedger(uint32_t server, uint32_t worker,
                              uint64_t generation) {
    v1::WorkerLedger& ledger = ledgers_[server].emplace_back();
    ledger.mutable_worker()->set_worker_index(worker);
    ledger.mutable_worker()->set_worker_generation(generation);
    return &ledger;
  }
  // One of two messages of the worker's first push has arrived; of examples 0
  // to 9 of an epoch, or without examples.
  void AddPartialPush(uint32_t server, uint32_t worker, uint64_t generation,
                      std::optional<uint32_t> epoch) {
    v1::WorkerLedger* const ledger = AddLedger(server, worker, generation);
    ledger->set_highest(1);
    v1::PushRecord* const push = ledger->add_pushes();
    push->set_sequence(1);
    push->set_message_count(2);
    push->add_messages(0);
    if (!epoch.has_value()) return;
    for (auto* examples :
         {push->mutable_examples(), push->mutable_dense_examples()}) {
      v1::ExampleInterval* const interval = examples->Add();
      interval->set_end(10);
      interval->set_epoch(*epoch);
    }
  }
  // What servers would do.
  bool ServersEnd() { return ServerBeat(0).job_finished(); }

  uint64_t last_registration_ = 0;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_TESTS_COORDINATOR_COORDINATOR_STAY_TESTING_H_
