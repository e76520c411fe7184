#include "fleet/data_parallel/server_group.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/call_and_wait.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "data/order/example_intervals.h"
#include "fleet/role/worker_connection.h"
#include "worker/cut/cut_marker.h"

namespace oarlock {
namespace {

// This worker's membership in the rounds of the job.
class Rounds {
 public:
  Rounds(client::JobClient* job, worker::CutMarker* cuts)
      : job_(job), cuts_(cuts) {}

  // Returns when all workers are members.
  absl::Status Join() {
    if (joined_) return absl::OkStatus();
    OARLOCK_ASSIGN_OR_RETURN(last_, job_->JoinRounds());
    joined_ = true;
    cuts_->JoinedRounds(last_);
    return job_->Barrier(absl::StrCat("rounds/", ++num_joins_));
  }
  absl::Status Leave() {
    if (!joined_) return absl::OkStatus();
    joined_ = false;
    OARLOCK_RETURN_IF_ERROR(job_->LeaveRounds());
    cuts_->LeftRounds();
    return absl::OkStatus();
  }
  // The number of the next one. REQUIRES: joined.
  uint64_t Next() {
    OARLOCK_CHECK(joined_);
    return ++last_;
  }

 private:
  client::JobClient* const job_;
  worker::CutMarker* const cuts_;
  bool joined_ = false;
  uint64_t num_joins_ = 0;
  // The last one that this worker took part in.
  uint64_t last_ = 0;
};

// One push a step, in rounds that all workers are members of.
//
// What marks of cuts tell the coordinator are places in the order that the
// samplers of all workers share: update u has the places from u * round_size_
// on, of which worker w has those from w * examples_per_update on. So a job
// goes on at an update, also with more or fewer workers.
class RoundExchange : public GradientExchange {
 public:
  RoundExchange(WorkerConnection* connection, worker::CutMarker* cuts,
                Rounds* rounds, TableId table, const Clock& clock)
      : connection_(connection),
        cuts_(cuts),
        rounds_(rounds),
        table_(table),
        clock_(clock) {}

  absl::Status Begin(absl::Span<float> values) override { return Pull(values); }

  absl::StatusOr<uint64_t> BeginEpoch(uint32_t epoch, uint64_t num_updates,
                                      uint64_t examples_per_update,
                                      absl::Span<float> values) override {
    client::JobClient& job = *connection_->job;
    phase_name_ = absl::StrCat("train/", epoch);
    examples_per_update_ = examples_per_update;
    round_size_ = examples_per_update * job.num_workers();
    OARLOCK_ASSIGN_OR_RETURN(
        const data::ExampleIntervals trained,
        job.DefinePhase(phase_name_, {}, num_updates * round_size_,
                        /*order=*/""));
    OARLOCK_ASSIGN_OR_RETURN(next_update_,
                             UpdatesIn(trained, num_updates * round_size_));
    if (next_update_ > 0 && job.worker_index().value() == 0) {
      Log().info("goes on after {} of {} updates of {}", next_update_,
                 num_updates, phase_name_);
    }
    OARLOCK_RETURN_IF_ERROR(rounds_->Join());
    OARLOCK_RETURN_IF_ERROR(Pull(values));
    return next_update_;
  }

  absl::Status EndEpoch() override { return rounds_->Leave(); }

  absl::Status EndStep(absl::Span<float> gradients,
                       absl::Span<float> values) override {
    OARLOCK_RETURN_IF_ERROR(connection_->job->Alive());
    // For who counts no epochs.
    OARLOCK_RETURN_IF_ERROR(rounds_->Join());
    // A copy, since gRPC may read it longer than the call takes.
    memory_->gradients.assign(gradients.begin(), gradients.end());
    client::PushRequest push;
    push.round = rounds_->Next();
    push.dense.push_back(
        {table_, memory_->gradients.data(), 1, &memory_->values});
    if (examples_per_update_ > 0) {
      const uint64_t begin =
          next_update_++ * round_size_ +
          connection_->job->worker_index().value() * examples_per_update_;
      push.examples = {{.begin = begin, .end = begin + examples_per_update_}};
    }
    const absl::Time start = clock_.Now();
    OARLOCK_RETURN_IF_ERROR(
        CallAndWait([&](client::ParameterClient::Done done) {
          cuts_->Push(phase_name_, push, nullptr, memory_, std::move(done));
        }));
    communication_ += clock_.Now() - start;
    CopyTo(values);
    return absl::OkStatus();
  }

  // A round begins when all gradients are there: nothing is hidden.
  ExchangeTimes times() const override {
    return {.communication = communication_, .exposed = communication_};
  }

 private:
  absl::Status Pull(absl::Span<float> values) {
    OARLOCK_RETURN_IF_ERROR(
        CallAndWait([&](client::ParameterClient::Done done) {
          connection_->parameters->PullDense(table_, &memory_->values, memory_,
                                             std::move(done));
        }));
    CopyTo(values);
    return absl::OkStatus();
  }

  // How many updates made the places in `trained`, of `num_places`.
  absl::StatusOr<uint64_t> UpdatesIn(const data::ExampleIntervals& trained,
                                     uint64_t num_places) const {
    if (trained.empty()) return 0;
    const std::vector<data::ExampleRange> missing =
        trained.Missing({.begin = 0, .end = num_places});
    if (missing.empty()) return num_places / round_size_;
    const uint64_t end =
        missing.back().end == num_places ? missing.back().begin : num_places;
    // A worker that died has left holes; rounds went on without it.
    if (end % round_size_ != 0 && missing.size() == 1) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the servers go on after ", end, " examples of ", phase_name_,
          ", and an update has ", round_size_, "; legal are batches of which ",
          end, " examples are whole updates, as those of the run before"));
    }
    return (end + round_size_ - 1) / round_size_;
  }

  struct Memory {
    std::vector<float> gradients;
    client::DenseReplica values;
  };

  void CopyTo(absl::Span<float> values) const {
    OARLOCK_CHECK(values.size() == memory_->values.values.size());
    std::copy(memory_->values.values.begin(), memory_->values.values.end(),
              values.begin());
  }

  WorkerConnection* const connection_;
  worker::CutMarker* const cuts_;
  Rounds* const rounds_;
  const TableId table_;
  const Clock& clock_;
  // The epoch under way, and of all workers the places of an update; 0 and none
  // before the first BeginEpoch.
  std::string phase_name_ = "train";
  uint64_t examples_per_update_ = 0;
  uint64_t round_size_ = 0;
  uint64_t next_update_ = 0;
  absl::Duration communication_;
  const std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

// What the coordinator adds up.
class PhaseReports {
 public:
  void Add(v1::PhaseProgress report) {
    absl::MutexLock lock(&mutex_);
    reports_.push_back(std::move(report));
  }
  std::vector<v1::PhaseProgress> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(reports_, {});
  }

 private:
  absl::Mutex mutex_;
  std::vector<v1::PhaseProgress> reports_ ABSL_GUARDED_BY(mutex_);
};

class ServerGroup : public WorkerGroup {
 public:
  ServerGroup(const DistributedStrategy& strategy, WorkerConnection connection,
              size_t num_servers)
      : WorkerGroup(strategy),
        num_servers_(num_servers),
        connection_(std::move(connection)),
        cuts_(connection_.parameters.get(), connection_.job.get(),
              worker::CutMarker::Numbering::kByRound,
              connection_.servers->clock()),
        rounds_(connection_.job.get(), &cuts_) {
    connection_.job->SetProgressSource([this] { return reports_.Take(); });
  }
  ~ServerGroup() override { connection_.job->SetProgressSource(nullptr); }

  uint32_t rank() const override {
    return connection_.job->worker_index().value();
  }
  uint32_t size() const override { return connection_.job->num_workers(); }
  std::string Describe() const override {
    return absl::StrCat("worker ", rank(), " of ", size(), " with ",
                        num_servers_, " parameter server",
                        num_servers_ == 1 ? "" : "s", ", sync");
  }

  bool keeps_parameters() const override { return false; }
  absl::StatusOr<std::unique_ptr<GradientExchange>> NewExchange(
      const v1::TableConfig& table, nn::MathBackend* backend) override {
    OARLOCK_CHECK(backend == nullptr);
    if (table.optimizer().has_lars()) {
      return absl::InvalidArgumentError(
          "the optimizer is lars, whose steps go by norms of whole parameters, "
          "which servers hold in blocks; legal with parameter servers are all "
          "others, as momentum");
    }
    v1::TableConfig config = table;
    config.set_mode(v1::SYNC);
    // Gradients are scaled by the examples of all workers.
    config.set_reduction(v1::SUM);
    OARLOCK_RETURN_IF_ERROR(connection_.parameters->CreateTable(config));
    // Nobody pushes to a table that another worker has not agreed to.
    OARLOCK_RETURN_IF_ERROR(connection_.job->Barrier("tables"));
    return std::make_unique<RoundExchange>(&connection_, &cuts_, &rounds_,
                                           TableId(config.id()),
                                           *strategy().clocks.monotonic);
  }

  absl::StatusOr<ClassScores> Sum(const std::string& phase, uint32_t epoch,
                                  const ClassScores& mine) override {
    client::JobClient& job = *connection_.job;
    v1::PhaseProgress report;
    report.set_phase(phase);
    report.set_epoch(epoch);
    const auto [examples, top1, top5, loss_sum] = mine.ToSums();
    report.set_examples(static_cast<uint64_t>(examples));
    report.set_right_in_one(static_cast<uint64_t>(top1));
    report.set_right_in_five(static_cast<uint64_t>(top5));
    report.set_loss_sum(loss_sum);
    reports_.Add(std::move(report));
    OARLOCK_RETURN_IF_ERROR(job.Report());
    OARLOCK_RETURN_IF_ERROR(
        job.Barrier(absl::StrCat(phase, "/", epoch, "/summed")));
    OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                             job.GetJobStatus());
    for (const v1::PhaseStatus& found : status.phases()) {
      const v1::PhaseProgress& sum = found.progress();
      if (sum.phase() != phase || sum.epoch() != epoch) continue;
      return ClassScores::FromSums({static_cast<double>(sum.examples()),
                                    static_cast<double>(sum.right_in_one()),
                                    static_cast<double>(sum.right_in_five()),
                                    sum.loss_sum()});
    }
    return absl::InternalError(
        absl::StrCat("the coordinator has no totals of ", phase, "/", epoch));
  }

  absl::Status Broadcast(std::string* bytes) override {
    return absl::UnimplementedError(
        "with parameter servers workers tell each other nothing");
  }
  bool can_broadcast() const override { return false; }

  uint32_t trained_epochs() const override {
    return connection_.job->trained_epochs();
  }
  absl::Status Checkpoint() override {
    client::JobClient& job = *connection_.job;
    // Nobody pushes before the next round, which begins with all workers. So
    // what they tell now is all that the checkpoint has.
    OARLOCK_RETURN_IF_ERROR(rounds_.Leave());
    OARLOCK_RETURN_IF_ERROR(cuts_.ReportRest());
    OARLOCK_RETURN_IF_ERROR(
        job.Barrier(absl::StrCat("checkpoint/", ++num_checkpoints_)));
    return rank() == 0 ? job.Checkpoint() : absl::OkStatus();
  }
  bool makes_checkpoints() const override {
    return connection_.job->takes_cuts();
  }

  absl::Status Barrier(const std::string& name) override {
    return connection_.job->Barrier(name);
  }

  absl::Status Leave(const absl::Status& outcome) override {
    client::JobClient& job = *connection_.job;
    if (outcome.ok()) {
      OARLOCK_RETURN_IF_ERROR(rounds_.Leave());
      if (makes_checkpoints()) OARLOCK_RETURN_IF_ERROR(Checkpoint());
    }
    return job.Finish(outcome);
  }

 private:
  const size_t num_servers_;
  PhaseReports reports_;
  WorkerConnection connection_;
  worker::CutMarker cuts_;
  Rounds rounds_;
  uint64_t num_checkpoints_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinServerGroup(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const DistributedStrategy& strategy) {
  if (strategy.gradient_format != "float32") {
    return absl::InvalidArgumentError(absl::StrCat(
        "the strategy's gradient_format is ", strategy.gradient_format,
        "; legal with parameter servers is float32 (16-bit gradients are for "
        "rows: --push_format)"));
  }
  if (strategy.collective_backend != "auto") {
    return absl::InvalidArgumentError(absl::StrCat(
        "the strategy's collective_backend is ", strategy.collective_backend,
        ", and with parameter servers workers send gradients to those; legal "
        "is auto"));
  }
  if (role.restarts > 0 && !role.restarted_together) {
    return absl::FailedPreconditionError(absl::StrCat(
        cluster::RoleName(role),
        " has died and is started again by itself, but the "
        "rounds of the others went on; start all processes of the job again, "
        "with --checkpoint_dir to go on from the last checkpoint"));
  }
  OARLOCK_ASSIGN_OR_RETURN(WorkerConnection connection,
                           ConnectWorker(config, role, strategy.clocks));
  return std::make_unique<ServerGroup>(strategy, std::move(connection),
                                       role.server_endpoints.size());
}

}  // namespace oarlock
