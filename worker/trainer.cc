#include "worker/trainer.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/environment.h"
#include "nn/backends/device_choice.h"
#include "worker/config/data_options_of.h"
#include "worker/config/flag_use.h"
#include "worker/config/model_of.h"
#include "worker/config/push_size.h"
#include "worker/config/training_mode.h"
#include "worker/epoch/half_async_epoch.h"
#include "worker/epoch/pipelined_epoch.h"
#include "worker/epoch/push_completion.h"
#include "worker/epoch/ssp_epoch.h"
#include "worker/epoch/sync_epoch.h"
#include "worker/geo/geo_epoch.h"
#include "worker/geo/geo_push_completion.h"
#include "worker/input/leased_ranges.h"
#include "worker/input/stoppable_ranges.h"
#include "worker/online/online_training.h"
#include "worker/report/quality_warning.h"

namespace oarlock::worker {
namespace {

constexpr WorkerIndex kFirstWorker(0);

// This worker's share of the cores that it may run on, at least 1: workers of
// the same host take equal parts.
int ShareOfCores(const v1::JobStatusResponse& status, WorkerIndex self) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  int num_cores = 1;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    num_cores = CPU_COUNT(&cores);
  }
  std::string host;
  for (const v1::WorkerState& worker : status.workers()) {
    if (worker.worker_index() == self.value()) host = worker.host();
  }
  int num_workers = 0;
  for (const v1::WorkerState& worker : status.workers()) {
    num_workers += worker.host() == host;
  }
  return std::max(1, num_cores / std::max(1, num_workers));
}

// FailedPrecondition when a job has read its files and trained nothing:
// what it leaves is no model, whatever its exit code would say.
absl::Status CheckTrained(const v1::JobConfig& config,
                          const v1::JobStatusResponse& status) {
  uint64_t bad_lines = 0;
  for (const v1::PhaseStatus& phase : status.phases()) {
    if (phase.progress().phase() != "train") continue;
    if (phase.progress().examples() > 0) return absl::OkStatus();
    bad_lines += phase.progress().bad_lines();
  }
  std::string why;
  if (bad_lines > 0) {
    why = absl::StrCat(
        "all that was read are ", bad_lines,
        " malformed lines; the first is "
        "in the log of a worker; name other files, or their --data_format");
  } else if (config.drop_tail() && config.split() == "by_file") {
    why = absl::StrCat(
        "--split by_file gives each reader whole files, and --drop_tail drops "
        "what is beyond the reader with the fewest batches: give at least as "
        "many files as there are threads on all workers, or leave one of the "
        "two out");
  } else if (config.drop_tail()) {
    why =
        absl::StrCat("it has no lines, or too few for a batch of --batch_size ",
                     config.batch_size(),
                     " on each worker; lower it, or leave --drop_tail out");
  } else {
    why = "not a line was read; name files that have some";
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no example of --train_files ", absl::StrJoin(config.train_files(), ","),
      " was trained: ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<models::Model>> ModelOf(
    const v1::JobConfig& config, const std::string& math_backend) {
  OARLOCK_RETURN_IF_ERROR(CheckDataFlags(config));
  const data::DataOptions data = DataOptionsOf(config);
  OARLOCK_RETURN_IF_ERROR(data.Validate());
  return ModelOf(config, data::SchemaOf(data), math_backend);
}

Trainer::Trainer(const v1::JobConfig& config,
                 client::ParameterClient* parameters, client::JobClient* job,
                 const TrainerOptions& options)
    : config_(config),
      parameters_(parameters),
      job_(job),
      clocks_(options.clocks),
      warnings_(options.warnings) {
  if (job_->worker_index() != kFirstWorker) return;
  for (const std::string& warning : warnings_) Log().warn("{}", warning);
}

Trainer::~Trainer() { job_->SetProgressSource(nullptr); }

absl::Status Trainer::CheckConfig(const v1::JobConfig& config) {
  OARLOCK_RETURN_IF_ERROR(CheckFlagUse(config));
  OARLOCK_RETURN_IF_ERROR(TrainingData::CheckConfig(config));
  OARLOCK_RETURN_IF_ERROR(CheckEvaluation(config));
  OARLOCK_RETURN_IF_ERROR(CheckOnlineTraining(config));
  OARLOCK_RETURN_IF_ERROR(
      nn::CheckDevice(config.device(), config.dense_math(),
                      cluster::SelectedGpus(cluster::ReadEnvironment())));
  std::string math_backend = models::ModelOptions().math_backend;
  if (config.device() == "cpu") {
    OARLOCK_ASSIGN_OR_RETURN(
        const nn::DeviceChoice choice,
        nn::ChooseDevice(config.device(), config.dense_math(), /*worker=*/0,
                         /*selected_gpus=*/""));
    math_backend = choice.math_backend;
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<models::Model> model,
                           ModelOf(config, math_backend));
  OARLOCK_RETURN_IF_ERROR(CheckPushSize(model->spec(), config));
  return PlanTables(model->spec(), config, /*num_workers=*/1).status();
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    const v1::JobConfig& config, client::ParameterClient* parameters,
    client::JobClient* job, const TrainerOptions& options) {
  OARLOCK_ASSIGN_OR_RETURN(
      const nn::DeviceChoice choice,
      nn::ChooseDevice(config.device(), config.dense_math(),
                       job->worker_index().value(),
                       cluster::SelectedGpus(cluster::ReadEnvironment())));
  if (!choice.log_line.empty()) Log().info("{}", choice.log_line);
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<models::Model> model,
                           ModelOf(config, choice.math_backend));
  return Create(config, std::move(model), parameters, job, options);
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    const v1::JobConfig& config, std::unique_ptr<models::Model> model,
    client::ParameterClient* parameters, client::JobClient* job,
    const TrainerOptions& options) {
  const Clock& clock = *options.clocks.monotonic;
  auto trainer =
      absl::WrapUnique(new Trainer(config, parameters, job, options));
  trainer->model_ = std::move(model);
  OARLOCK_ASSIGN_OR_RETURN(
      trainer->plan_,
      PlanTables(trainer->model_->spec(), config, job->num_workers()));
  trainer->dense_ =
      std::make_unique<DenseParameters>(parameters, trainer->plan_.dense_table);
  OARLOCK_ASSIGN_OR_RETURN(
      trainer->train_,
      TrainingData::Open(
          trainer->config_,
          {config.train_files().begin(), config.train_files().end()},
          TrainingData::Division::kConfigured, job, clock));
  OARLOCK_ASSIGN_OR_RETURN(
      trainer->test_,
      TrainingData::Open(
          trainer->config_,
          {config.test_files().begin(), config.test_files().end()},
          TrainingData::Division::kLeased, job, clock));
  OARLOCK_RETURN_IF_ERROR(trainer->CheckTestFiles());
  trainer->cuts_ = std::make_unique<CutMarker>(
      parameters, job,
      ModeOf(config) == TrainingMode::kSync ? CutMarker::Numbering::kByRound
                                            : CutMarker::Numbering::kByCut,
      clock);
  if (ModeOf(config) == TrainingMode::kGeo) {
    OARLOCK_ASSIGN_OR_RETURN(
        trainer->geo_, GeoReplica::Create(trainer->plan_, job->num_workers(),
                                          config.geo_rows_max(), parameters));
  }
  job->SetProgressSource([t = trainer.get()] { return t->progress_.Take(); });
  return trainer;
}

const std::vector<std::string>& Trainer::train_files() const {
  return train_->files();
}
const std::vector<std::string>& Trainer::test_files() const {
  return test_->files();
}

absl::Status Trainer::CreateTables() {
  for (const v1::TableConfig& table : plan_.tables) {
    OARLOCK_RETURN_IF_ERROR(parameters_->CreateTable(table));
  }
  // Nobody pulls from a table that another worker has not created yet; and
  // everybody hears of a failure before the data is opened.
  OARLOCK_RETURN_IF_ERROR(job_->Barrier("tables"));
  // All workers have registered by now.
  OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                           job_->GetJobStatus());
  // No more than there are threads: a dense copy that nobody uses grows old. As
  // many as a quorum waits for: a push keeps its copy until it is answered.
  const uint32_t quorum_pushes =
      plan_.tables.back().dense().pushes_per_worker();
  num_dense_copies_ = std::min(
      config_.thread_num(), std::max(ShareOfCores(status, job_->worker_index()),
                                     static_cast<int>(quorum_pushes)));
  if (job_->worker_index() == kFirstWorker &&
      !config_.tensorboard_dir().empty()) {
    OARLOCK_ASSIGN_OR_RETURN(
        events_, TrainingEvents::Start(
                     config_.tensorboard_dir(),
                     absl::Seconds(config_.tensorboard_period_s()),
                     [job = job_] { return job->GetJobStatus(); }, clocks_));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CheckTestFiles() const {
  if (job_->worker_index() != kFirstWorker || test_->empty()) {
    return absl::OkStatus();
  }
  OARLOCK_RETURN_IF_ERROR(test_->CheckFirstLines());
  if (!KnowsTestFilesEmpty()) return absl::OkStatus();
  const absl::Status none = NoTestExamples(config_);
  if (NeedsTestExamples(config_)) return none;
  Log().warn("{}", std::string(none.message()));
  return absl::OkStatus();
}

std::unique_ptr<PeriodicEvaluation> Trainer::EvaluatePeriodically() const {
  if (config_.evaluate_period() == 0 || job_->worker_index() != kFirstWorker ||
      KnowsTestFilesEmpty()) {
    return nullptr;
  }
  return std::make_unique<PeriodicEvaluation>(
      ContextOf(*test_, PhaseId()), test_->items(), config_.evaluate_period());
}

EpochContext Trainer::ContextOf(const TrainingData& data,
                                const PhaseId& phase) const {
  EpochContext context;
  context.config = &config_;
  context.model = model_.get();
  context.parameters = parameters_;
  context.job = job_;
  context.dense = dense_.get();
  context.progress = const_cast<ProgressMeter*>(&progress_);
  context.clocks = clocks_;
  context.sparse_tables = plan_.sparse_tables;
  context.num_examples = data.EstimateExamples();
  context.dense_table = plan_.dense_table;
  // The dense table stands last.
  context.dense_optimizer = plan_.tables.back().optimizer();
  context.phase = phase;
  context.phase_name = phase.Name();
  context.cuts = cuts_.get();
  context.geo = geo_.get();
  context.data = data.data_options();
  context.files = data.files();
  context.new_reader = data.new_reader();
  context.num_dense_copies = num_dense_copies_;
  return context;
}

absl::Status Trainer::RunEpochAlone(const EpochContext& context) {
  switch (ModeOf(*context.config)) {
    case TrainingMode::kAsync:
      return RunAsyncEpoch(context);
    case TrainingMode::kHalfAsync:
      return RunHalfAsyncEpoch(context);
    case TrainingMode::kSsp:
      return RunSspEpoch(context);
    case TrainingMode::kGeo:
      return RunGeoEpoch(context);
    case TrainingMode::kSync:
      break;
  }
  return absl::InternalError("an epoch of mode sync has rounds");
}

absl::Status Trainer::RunPhase(TrainingData& data, const PhaseId& phase,
                               bool trains) {
  EpochContext context = ContextOf(data, phase);
  if (!trains) context.cuts = nullptr;
  LeasedRanges::RunCompletion run_completion;
  const bool has_rounds = ModeOf(config_) == TrainingMode::kSync;
  if (trains && !has_rounds) {
    run_completion = [&context](const client::PushCompletion& completion) {
      return context.geo != nullptr ? RunGeoPushCompletion(context, completion)
                                    : RunPushCompletion(context, completion);
    };
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<EpochRanges> ranges,
                           data.StartPhase(phase, std::move(run_completion)));
  context.new_reader = ranges->new_reader();
  for (bool more = true; more;) {
    // Leased ranges are stopped by whoever leases them, and have push
    // completions to make.
    const bool stops_itself = trains && ranges->num_rounds().has_value();
    std::deque<StoppableRanges> stoppable;
    context.ranges.clear();
    for (data::RangeSource* source : ranges->sources()) {
      context.ranges.push_back(
          stops_itself ? &stoppable.emplace_back(job_, source) : source);
    }
    OARLOCK_RETURN_IF_ERROR(trains && has_rounds
                                ? RunSyncEpoch(context, ranges->num_rounds())
                            : trains ? RunEpochAlone(context)
                                     : RunEvaluation(context));
    OARLOCK_ASSIGN_OR_RETURN(more, ranges->AwaitMore());
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> Trainer::FirstEpoch() {
  const auto epochs = static_cast<uint32_t>(config_.epochs());
  const uint32_t trained = job_->trained_epochs();
  if (trained == 0 || epochs == 0) return 0;
  if (trained >= epochs) return epochs - 1;
  if (test_->empty()) return trained;
  OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                           job_->GetJobStatus());
  const PhaseId last{"test", trained - 1};
  const bool is_evaluated = std::any_of(
      status.evaluations().begin(), status.evaluations().end(),
      [&](const v1::Evaluation& e) { return e.work() == last.Name(); });
  // If the others of this run make it, so does a worker that comes later.
  const bool in_this_run =
      std::any_of(status.phases().begin(), status.phases().end(),
                  [&](const v1::PhaseStatus& p) {
                    return p.progress().phase() == last.phase &&
                           p.progress().epoch() == last.epoch;
                  });
  return is_evaluated && !in_this_run ? trained : trained - 1;
}

absl::Status Trainer::TrainEpoch(uint32_t epoch) {
  if (train_->empty()) {
    return absl::InvalidArgumentError(
        "there is nothing to train on; name the data with --train_files, for "
        "example --train_files 'data/part-*'");
  }
  return TrainEpochOn(*train_, epoch);
}

absl::Status Trainer::TrainEpochOn(TrainingData& data, uint32_t epoch) {
  if (epoch < job_->trained_epochs()) {
    Log().info("epoch {} was trained before the job was resumed", epoch + 1);
    return absl::OkStatus();
  }
  if (epoch < job_->own_trained_epochs()) {
    Log().info(
        "this worker's share of epoch {} was trained before it was "
        "restarted",
        epoch + 1);
    has_trained_ = true;
    // Others may still be training theirs.
    return job_->WaitForTrained(epoch);
  }
  const PhaseId phase{"train", epoch};
  OARLOCK_RETURN_IF_ERROR(job_->Barrier(absl::StrCat("train/", epoch)));
  const absl::Time start = clocks_.monotonic->Now();
  {
    const auto evaluation = EvaluatePeriodically();
    OARLOCK_RETURN_IF_ERROR(RunPhase(data, phase, /*trains=*/true));
  }
  // If this worker dies behind that barrier, nobody trains its share again.
  OARLOCK_RETURN_IF_ERROR(job_->Report());
  OARLOCK_RETURN_IF_ERROR(job_->WaitForTrained(epoch));
  train_seconds_ += absl::ToDoubleSeconds(clocks_.monotonic->Now() - start);
  has_trained_ = true;
  return WarnOfQuality(phase);
}

absl::Status Trainer::WarnOfQuality(const PhaseId& phase) {
  if (job_->worker_index() != kFirstWorker) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                           job_->GetJobStatus());
  LargestNumbers numbers;
  numbers.dense_feature = progress_.largest_dense().magnitude;
  numbers.dense_column = progress_.largest_dense().column;
  numbers.may_transform =
      DataFormatOf(config_) == data::DataOptions::Format::kCriteo;
  if (const auto replica = dense_->Current(); replica != nullptr) {
    for (const float value : replica->values) {
      numbers.weight = std::max(numbers.weight, std::abs(value));
    }
  }
  for (const v1::PhaseStatus& done : status.phases()) {
    const v1::PhaseProgress& progress = done.progress();
    if (progress.phase() != phase.phase || progress.epoch() != phase.epoch ||
        progress.examples() == 0) {
      continue;
    }
    const double label_mean =
        progress.label_sum() / static_cast<double>(progress.examples());
    std::string warning = QualityWarning(
        {.phase_name = phase.Name(),
         .logloss = done.logloss(),
         .label_mean = label_mean,
         .training_steps = phase.phase == "train" ? progress.steps() : 0},
        numbers, config_.learning_rate());
    if (warning.empty()) continue;
    Log().warn("{}", warning);
    // Online training has no end.
    if (warnings_.size() == kMaxWarnings) warnings_.erase(warnings_.begin());
    warnings_.push_back(std::move(warning));
  }
  return absl::OkStatus();
}

absl::Status Trainer::KeepWhatIsTrained(absl::Status why) {
  // Who is out of the job, or out of reach, makes no checkpoint.
  if (why.ok() || !has_trained_ || !job_->takes_cuts() ||
      absl::IsAborted(why) || absl::IsUnavailable(why) ||
      absl::IsCancelled(why)) {
    return why;
  }
  const absl::Status kept = job_->Checkpoint();
  return absl::Status(
      why.code(),
      absl::StrCat(why.message(),
                   kept.ok() ? "; what was trained is in a checkpoint of "
                               "--checkpoint_dir: correct this, and go on "
                               "with --resume"
                             : "; nor is there a checkpoint of what was "
                               "trained: ",
                   kept.message()));
}

absl::Status Trainer::Evaluate(uint32_t epoch) {
  if (test_->empty()) return absl::OkStatus();
  const PhaseId phase{"test", epoch};
  OARLOCK_RETURN_IF_ERROR(
      KeepWhatIsTrained(RunPhase(*test_, phase, /*trains=*/false)));
  has_tested_ = true;
  OARLOCK_RETURN_IF_ERROR(ConcludeEvaluationOfAll(config_, job_, phase,
                                                  /*file=*/"", *clocks_.wall));
  return WarnOfQuality(phase);
}

absl::Status Trainer::TrainOnline() {
  OnlineTraining::Steps steps;
  steps.predict = [this](TrainingData& data, const PhaseId& phase) {
    return RunPhase(data, phase, /*trains=*/false);
  };
  steps.train = [this](TrainingData& data, uint32_t epoch) {
    return TrainEpochOn(data, epoch);
  };
  steps.evaluate = [this](uint32_t epoch) { return Evaluate(epoch); };
  return OnlineTraining(config_, job_, std::move(steps), clocks_).Run();
}

absl::StatusOr<TrainingSummary> Trainer::Summarize() {
  const absl::Status reported = cuts_->ReportRest();
  if (!reported.ok()) {
    Log().warn("the coordinator was not told all that was trained: {}",
               std::string(reported.message()));
  }
  OARLOCK_RETURN_IF_ERROR(job_->Report());
  OARLOCK_RETURN_IF_ERROR(job_->Barrier("summary"));
  OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                           job_->GetJobStatus());
  if (events_ != nullptr) events_->Finish(status);
  // Files that come one by one may be empty; a job that goes on may have
  // trained everything before; and whoever stops one wants what there is.
  if (has_trained_ && config_.watch_dir().empty() && !config_.resume() &&
      status.stop_reason().empty()) {
    OARLOCK_RETURN_IF_ERROR(CheckTrained(config_, status));
  }
  // One that was known at the beginning was told then.
  if (has_tested_ && job_->worker_index() == kFirstWorker &&
      !KnowsTestFilesEmpty() && !HasTestExamples(status)) {
    Log().warn("{}", std::string(NoTestExamples(config_).message()));
  }
  TrainingSummary summary = SummaryOf(status);
  summary.model = config_.model();
  summary.mode = config_.mode();
  summary.workers = job_->num_workers();
  summary.epochs = status.has_newest_file()
                       ? static_cast<int>(status.newest_file().epoch() + 1)
                       : config_.epochs();
  summary.seconds = train_seconds_;
  summary.warnings = warnings_;
  if (job_->own_trained_epochs() > 0) {
    // This worker has not seen all epochs.
    summary.seconds = 0;
    for (const v1::PhaseStatus& phase : status.phases()) {
      if (phase.progress().phase() != "train") continue;
      summary.seconds += phase.seconds();
    }
  }
  return summary;
}

absl::StatusOr<TrainingSummary> Trainer::Run() {
  OARLOCK_RETURN_IF_ERROR(CreateTables());
  if (!config_.watch_dir().empty()) {
    OARLOCK_RETURN_IF_ERROR(TrainOnline());
    return Summarize();
  }
  const auto epochs = static_cast<uint32_t>(config_.epochs());
  OARLOCK_ASSIGN_OR_RETURN(uint32_t epoch, FirstEpoch());
  for (; epoch < epochs; ++epoch) {
    OARLOCK_ASSIGN_OR_RETURN(const bool begins, MayBeginEpoch(epoch));
    if (!begins) break;
    OARLOCK_RETURN_IF_ERROR(TrainEpoch(epoch));
    OARLOCK_RETURN_IF_ERROR(Evaluate(epoch));
  }
  return Summarize();
}

}  // namespace oarlock::worker
