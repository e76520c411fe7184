// A worker's part of a job: tables, epochs, evaluation, summary.

#ifndef OARLOCK_WORKER_TRAINER_H_
#define OARLOCK_WORKER_TRAINER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "client/job_client.h"
#include "client/parameter_client.h"
#include "models/model.h"
#include "proto/config/job_config.pb.h"
#include "worker/config/table_plan.h"
#include "worker/cut/cut_marker.h"
#include "worker/dense/dense_parameters.h"
#include "worker/epoch/epoch_context.h"
#include "worker/evaluation/evaluation.h"
#include "worker/geo/geo_replica.h"
#include "worker/input/training_data.h"
#include "worker/report/progress_meter.h"
#include "worker/report/summary.h"
#include "worker/report/training_events.h"
#include "worker/report/worker_metrics.h"

namespace oarlock::worker {

// The job's model, computed by `math_backend`; see worker/config/model_of.h.
// InvalidArgument when its flags contradict each other.
absl::StatusOr<std::unique_ptr<models::Model>> ModelOf(
    const v1::JobConfig& config,
    const std::string& math_backend = models::ModelOptions().math_backend);

struct TrainerOptions {
  Clocks clocks = {};
  // Told at the beginning of training, and in its summary.
  std::vector<std::string> warnings = {};
};

// One thread at a time.
class Trainer {
 public:
  // Before a job is begun: InvalidArgument when flags contradict each other, in
  // a way that the flags themselves do not tell. No GPU is looked for: servers
  // check the same flags, and compute nothing.
  static absl::Status CheckConfig(const v1::JobConfig& config);

  // `parameters`, `job` and the clocks outlive the trainer; `config` is copied.
  // NotFound when a pattern of the file lists matches nothing,
  // FailedPrecondition when this machine does not have config.device().
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const v1::JobConfig& config, client::ParameterClient* parameters,
      client::JobClient* job, const TrainerOptions& options = TrainerOptions());
  // The same with a model of the caller's own, wherever that computes;
  // config.model() is only its name.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const v1::JobConfig& config, std::unique_ptr<models::Model> model,
      client::ParameterClient* parameters, client::JobClient* job,
      const TrainerOptions& options = TrainerOptions());
  ~Trainer();

  // Creates the tables, trains for config.epochs() epochs and evaluates after
  // each. In a job that was resumed, those that are left; when none is, the
  // last evaluation is made anew. Returns when all workers of the job are
  // through.
  absl::StatusOr<TrainingSummary> Run();

  // The parts of Run, for programs that drive the loop themselves.
  absl::Status CreateTables();
  // The epoch to begin with, numbered from 0: the first that was not trained
  // before the job was resumed. The one before it if its evaluation is missing,
  // and the last one if none is left, since an evaluation tells the outcome;
  // TrainEpoch of such an epoch does nothing. The same on all workers of a run,
  // those that take the place of others that died included: they go through the
  // same epochs, and so meet the others wherever these wait; of epochs of which
  // their share is trained TrainEpoch only meets.
  absl::StatusOr<uint32_t> FirstEpoch();
  // One epoch, a walk over the training files.
  absl::Status TrainEpoch(uint32_t epoch);
  // Predicts the test files, if there are any.
  absl::Status Evaluate(uint32_t epoch);
  // How the job stands over all workers; the same on every worker after a
  // barrier. FailedPrecondition when epochs over --train_files were made, but
  // not one example was trained: online training and --resume may do that.
  absl::StatusOr<TrainingSummary> Summarize();

  TrainingData& training_data() { return *train_; }
  const std::vector<std::string>& train_files() const;
  const std::vector<std::string>& test_files() const;
  // Before each epoch: whether it begins, the same on all workers. No when
  // training was stopped, early or by a command.
  absl::StatusOr<bool> MayBeginEpoch(uint32_t epoch) {
    return job_->BeginEpoch(epoch);
  }
  // In place of epochs over the training files: those of --watch_dir, until
  // training is stopped.
  absl::Status TrainOnline();

  // What this worker has done; from any thread, any time.
  void CollectMetrics(MetricsSnapshot* snapshot) const {
    CollectWorkerMetrics(progress_, snapshot);
  }

 private:
  Trainer(const v1::JobConfig& config, client::ParameterClient* parameters,
          client::JobClient* job, const TrainerOptions& options);

  EpochContext ContextOf(const TrainingData& data, const PhaseId& phase) const;
  // Of worker 0, before anything is trained: errors of the first lines of test
  // files; and when its files were counted NoTestExamples, or a warning of it,
  // if they have none.
  absl::Status CheckTestFiles() const;
  // Whether that could tell; what lines or packed files hold is known later.
  bool KnowsTestFilesEmpty() const { return test_->items().empty(); }
  // Evaluates beside an epoch; null where nobody asked for it, or
  // another worker does it.
  std::unique_ptr<PeriodicEvaluation> EvaluatePeriodically() const;
  // `why`, a failure of an evaluation, once there is a checkpoint.
  absl::Status KeepWhatIsTrained(absl::Status why);
  absl::Status TrainEpochOn(TrainingData& data, uint32_t epoch);
  // This worker's compute threads work off their part of a phase.
  absl::Status RunPhase(TrainingData& data, const PhaseId& phase, bool trains);
  // The first worker: warns when all workers' predictions of the phase are
  // worse than a constant's.
  absl::Status WarnOfQuality(const PhaseId& phase);

  // Trains the context's ranges by the job's mode, unless that is sync.
  absl::Status RunEpochAlone(const EpochContext& context);

  const v1::JobConfig config_;
  client::ParameterClient* const parameters_;
  client::JobClient* const job_;
  const Clocks clocks_;
  std::unique_ptr<models::Model> model_;
  TablePlan plan_;
  std::unique_ptr<DenseParameters> dense_;
  ProgressMeter progress_;
  std::unique_ptr<CutMarker> cuts_;
  // Geo mode; else null. Kept from epoch to epoch.
  std::unique_ptr<GeoReplica> geo_;
  std::unique_ptr<TrainingData> train_;
  std::unique_ptr<TrainingData> test_;
  // Of the first worker, if they are wanted.
  std::unique_ptr<TrainingEvents> events_;
  double train_seconds_ = 0;
  // An epoch of this worker's was over, whatever was in it.
  bool has_trained_ = false;
  bool has_tested_ = false;
  // The newest of them, for the summary.
  static constexpr size_t kMaxWarnings = 32;
  std::vector<std::string> warnings_;
  // See EpochContext; known once the tables are created.
  int num_dense_copies_ = 1;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_TRAINER_H_
