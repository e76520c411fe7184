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
#include "base/status_macros.h"
#include "base/types.h"
#include "fleet/worker_connection.h"
#include "worker/cut_marker.h"

namespace oarlock {
namespace {

// Examples of a collective's sampler have no place in a file, so marks of cuts
// name none; a job that goes on from a checkpoint begins its passes anew.
constexpr char kWork[] = "train";

// One push a step, in rounds that all workers are members of.
class RoundExchange : public GradientExchange {
 public:
  RoundExchange(WorkerConnection* connection, CutMarker* cuts, TableId table)
      : connection_(connection), cuts_(cuts), table_(table) {}

  absl::Status Begin(absl::Span<float> values) override {
    OARLOCK_ASSIGN_OR_RETURN(round_, connection_->job->JoinRounds());
    cuts_->JoinedRounds(round_);
    // All workers are members before the first round begins.
    OARLOCK_RETURN_IF_ERROR(connection_->job->Barrier("rounds"));
    OARLOCK_RETURN_IF_ERROR(CallAndWait([&](ParameterClient::Done done) {
      connection_->parameters->PullDense(table_, &memory_->values, memory_,
                                         std::move(done));
    }));
    CopyTo(values);
    return absl::OkStatus();
  }

  absl::Status EndStep(absl::Span<float> gradients,
                       absl::Span<float> values) override {
    OARLOCK_RETURN_IF_ERROR(connection_->job->Alive());
    // A copy, since gRPC may read it longer than the call takes.
    memory_->gradients.assign(gradients.begin(), gradients.end());
    PushRequest push;
    push.round = ++round_;
    push.dense.push_back(
        {table_, memory_->gradients.data(), 1, &memory_->values});
    const absl::Time start = Clock::Real().Now();
    OARLOCK_RETURN_IF_ERROR(CallAndWait([&](ParameterClient::Done done) {
      cuts_->Push(kWork, push, nullptr, memory_, std::move(done));
    }));
    communication_ += Clock::Real().Now() - start;
    CopyTo(values);
    return absl::OkStatus();
  }

  // A round begins when all gradients are there: nothing is hidden.
  ExchangeTimes times() const override {
    return {.communication = communication_, .exposed = communication_};
  }

 private:
  struct Memory {
    std::vector<float> gradients;
    DenseReplica values;
  };

  void CopyTo(absl::Span<float> values) const {
    OARLOCK_CHECK(values.size() == memory_->values.values.size());
    std::copy(memory_->values.values.begin(), memory_->values.values.end(),
              values.begin());
  }

  WorkerConnection* const connection_;
  CutMarker* const cuts_;
  const TableId table_;
  // The last one that this worker took part in.
  uint64_t round_ = 0;
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
  ServerGroup(WorkerConnection connection, size_t num_servers)
      : num_servers_(num_servers),
        connection_(std::move(connection)),
        cuts_(connection_.parameters.get(), connection_.job.get(),
              CutMarker::Order::kByRound) {
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

  absl::StatusOr<std::unique_ptr<GradientExchange>> NewExchange(
      const v1::TableConfig& table) override {
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
    return std::make_unique<RoundExchange>(&connection_, &cuts_,
                                           TableId(config.id()));
  }

  absl::StatusOr<ClassScores> Sum(
      const std::string& phase, uint32_t epoch,
      const ClassScores& mine) override {
    JobClient& job = *connection_.job;
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

  absl::Status Barrier(const std::string& name) override {
    return connection_.job->Barrier(name);
  }

  absl::Status Leave(const absl::Status& outcome) override {
    JobClient& job = *connection_.job;
    if (outcome.ok()) {
      OARLOCK_RETURN_IF_ERROR(job.LeaveRounds());
      cuts_.LeftRounds();
      if (rank() == 0 && job.takes_cuts()) {
        OARLOCK_RETURN_IF_ERROR(job.Checkpoint());
      }
    }
    return job.Finish(outcome);
  }

 private:
  const size_t num_servers_;
  PhaseReports reports_;
  WorkerConnection connection_;
  CutMarker cuts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinServerGroup(
    const v1::JobConfig& config, const RoleAssignment& role,
    const DistributedStrategy& strategy) {
  if (strategy.gradient_format != "float32") {
    return absl::InvalidArgumentError(absl::StrCat(
        "the strategy's gradient_format is ", strategy.gradient_format,
        "; legal with parameter servers is float32 (16-bit gradients are for "
        "rows: --push_format)"));
  }
  OARLOCK_ASSIGN_OR_RETURN(WorkerConnection connection,
                           ConnectWorker(config, role));
  return std::make_unique<ServerGroup>(std::move(connection),
                                       role.server_endpoints.size());
}

}  // namespace oarlock
