#include "pserver/service/coordinator_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/connect.h"
#include "proto/v1/coordinator_service.grpc.pb.h"
#include "pserver/rpc/service_methods.h"

namespace oarlock::pserver {
namespace {

using coordinator::Coordinator;

// `what`: "run 2".
absl::Status Reserved(const v1::RegisterWorkerRequest& request,
                      const std::string& what) {
  return absl::UnimplementedError(
      absl::StrCat("worker ", request.worker_index(), " asks for ", what,
                   ", which this coordinator does not do; leave it unset"));
}

absl::Status CheckCutsAndDeaths(const v1::RegisterWorkerRequest& request,
                                bool stays) {
  if (request.cut_opener() != v1::RegisterWorkerRequest::COORDINATOR &&
      request.cut_opener() !=
          v1::RegisterWorkerRequest::CUT_OPENER_UNSPECIFIED) {
    return Reserved(request, "cut_opener WORKERS");
  }
  const bool known_on_death =
      request.on_death() == v1::RegisterWorkerRequest::RECOVER ||
      request.on_death() == v1::RegisterWorkerRequest::ON_DEATH_UNSPECIFIED ||
      (stays && request.on_death() == v1::RegisterWorkerRequest::CUT);
  return known_on_death ? absl::OkStatus() : Reserved(request, "on_death CUT");
}

}  // namespace

absl::Status CheckRegistration(const v1::RegisterWorkerRequest& request,
                               uint32_t num_workers) {
  OARLOCK_RETURN_IF_ERROR(
      cluster::CheckClientVersion(request.protocol_version()));
  OARLOCK_RETURN_IF_ERROR(CheckCutsAndDeaths(request, num_workers == 0));
  // Of a job that stays the coordinator knows the runs.
  if (num_workers == 0) {
    if (request.max_workers() == request.min_workers()) return absl::OkStatus();
    return Reserved(request,
                    absl::StrCat("a run of ", request.min_workers(), " to ",
                                 request.max_workers(), " workers"));
  }
  for (const uint32_t value : {request.min_workers(), request.max_workers()}) {
    if (value == 0 || value == num_workers) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", request.worker_index(), " is of ", value,
                     " workers, and the servers were started for ", num_workers,
                     "; start all processes with the same number of workers"));
  }
  if (request.run() > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", request.worker_index(), " is of run ", request.run(),
        ", and this job has run 1 alone; start the servers with --stay"));
  }
  return absl::OkStatus();
}

class CoordinatorService::Impl {
 public:
  Impl(Coordinator* coordinator, RoundMembership* round_membership,
       const ServerCheckpoints* checkpoints, uint32_t num_workers,
       const std::string& token)
      : coordinator_(coordinator), checkpoints_(checkpoints), methods_(token) {
    using S = v1::CoordinatorService::AsyncService;
    methods_.AddAnswer(
        &S::RequestRegisterWorker,
        [=](const v1::RegisterWorkerRequest& request)
            -> absl::StatusOr<v1::RegisterWorkerResponse> {
          OARLOCK_RETURN_IF_ERROR(CheckRegistration(request, num_workers));
          OARLOCK_ASSIGN_OR_RETURN(v1::RegisterWorkerResponse response,
                                   coordinator->RegisterWorker(request));
          google::protobuf::RepeatedPtrField<v1::WorkerState> states;
          v1::WorkerState* const state = states.Add();
          state->set_worker_index(request.worker_index());
          state->set_worker_generation(response.worker_generation());
          state->set_life(v1::WorkerState::ALIVE);
          round_membership->Apply(states);
          return response;
        });
    AddCall(&S::RequestHeartbeat, &Coordinator::Heartbeat);
    AddCall(&S::RequestFinishWorker, &Coordinator::FinishWorker);
    methods_.AddAnswer(
        &S::RequestServerHeartbeat,
        [coordinator](const v1::ServerHeartbeatRequest& request)
            -> absl::StatusOr<v1::ServerHeartbeatResponse> {
          if (request.server_index() == 0) {
            return absl::FailedPreconditionError(
                "server 0 is this process, the coordinator; start the other "
                "one with a place of its own in the list of servers");
          }
          return coordinator->ServerHeartbeat(request);
        });
    AddCall(&S::RequestBeginEpoch, &Coordinator::BeginEpoch);
    AddCall(&S::RequestDefinePhase, &Coordinator::DefinePhase);
    AddCall(&S::RequestLeaseRanges, &Coordinator::LeaseRanges);
    AddCall(&S::RequestMarkCut, &Coordinator::MarkCut);
    AddCall(&S::RequestReportEvaluation, &Coordinator::ReportEvaluation);
    AddCall(&S::RequestStopTraining, &Coordinator::StopTraining);
    AddCall(&S::RequestRecordFile, &Coordinator::RecordFile);
    AddCall(&S::RequestListFiles, &Coordinator::ListFiles);
    AddCall(&S::RequestDefineFeatures, &Coordinator::DefineFeatures);
    AddCall(&S::RequestDefineInput, &Coordinator::DefineInput);
    AddCall(&S::RequestGetInput, &Coordinator::GetInput);
    AddCall(&S::RequestGetJobStatus, &Coordinator::JobStatus);
    methods_.AddAsync(
        &S::RequestBarrier,
        [coordinator](const v1::BarrierRequest& request, auto done) {
          coordinator->Barrier(request, std::move(done));
        });
    methods_.AddAsync(
        &S::RequestStepClock,
        [coordinator](const v1::StepClockRequest& request, auto done) {
          coordinator->StepClock(request, std::move(done));
        });
    methods_.AddAsync(
        &S::RequestCheckpoint,
        [this](const v1::CheckpointRequest& request, auto done) {
          if (loop() == nullptr) {
            return done(absl::StatusOr<v1::CheckpointResponse>(
                absl::FailedPreconditionError(
                    "the job makes no checkpoints; start its servers with "
                    "--checkpoint_dir")));
          }
          loop()->Make(std::move(done), request.best());
        });
    methods_.AddAsync(&S::RequestDrain, [this](const v1::DrainRequest& request,
                                               auto done) {
      const std::string reason = request.reason();
      if (loop() == nullptr) return done(coordinator_->Drain(reason));
      // What was trained stays; a checkpoint that fails is in the log.
      loop()->Make([this, reason, done = std::move(done)](
                       const absl::StatusOr<v1::CheckpointResponse>&) mutable {
        done(coordinator_->Drain(reason));
      });
    });
    methods_.AddAnswer(&S::RequestPutBlob, [](const v1::PutBlobRequest&) {
      return absl::UnimplementedError(
          "this coordinator stores no blobs of workers; register with "
          "cut_opener COORDINATOR");
    });
  }

  grpc::Service* service() { return methods_.service(); }
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const {
    return methods_.Acceptor(std::move(gate));
  }

 private:
  // A method that the coordinator answers at once.
  template <typename Base, typename Request, typename Response, typename Queue,
            typename Method>
  void AddCall(void (Base::*ask)(grpc::ServerContext*, Request*,
                                 grpc::ServerAsyncResponseWriter<Response>*,
                                 grpc::CompletionQueue*, Queue*, void*),
               Method method) {
    methods_.AddAnswer(ask, [this, method](const Request& request) {
      return (coordinator_->*method)(request);
    });
  }
  CheckpointLoop* loop() const {
    return checkpoints_ == nullptr ? nullptr : checkpoints_->loop();
  }

  Coordinator* const coordinator_;
  const ServerCheckpoints* const checkpoints_;
  ServiceMethods<v1::CoordinatorService::AsyncService> methods_;
};

CoordinatorService::CoordinatorService(Coordinator* coordinator,
                                       RoundMembership* round_membership,
                                       const ServerCheckpoints* checkpoints,
                                       uint32_t num_workers,
                                       const std::string& token)
    : impl_(std::make_unique<Impl>(coordinator, round_membership, checkpoints,
                                   num_workers, token)) {}

CoordinatorService::~CoordinatorService() = default;

grpc::Service* CoordinatorService::service() { return impl_->service(); }

CallQueues::Acceptor CoordinatorService::Acceptor(
    std::shared_ptr<QueueGate> gate) const {
  return impl_->Acceptor(std::move(gate));
}

}  // namespace oarlock::pserver
