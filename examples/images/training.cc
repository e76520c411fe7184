#include "examples/images/training.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "fleet/data_parallel/distributed_model.h"
#include "fleet/data_parallel/join_workers.h"
#include "fleet/data_parallel/replica_checkpoint.h"
#include "fleet/data_parallel/training_summary.h"
#include "fleet/fleet.h"
#include "worker/data/distributed_batch_sampler.h"
#include "worker/data/images/image_loader.h"
#include "worker/nn/compute_threads.h"

namespace images {
namespace {

using oarlock::ClassScores;
using oarlock::DistributedBatchSampler;
using oarlock::DistributedModel;
using oarlock::DistributedOptimizer;
using oarlock::ImageBatch;
using oarlock::ImageLoader;
using oarlock::ImageTransform;
using oarlock::WorkerGroup;

absl::StatusOr<DistributedBatchSampler> SamplerOf(
    const v1::ImageConfig& config, const WorkerGroup& group,
    uint64_t num_examples, bool training) {
  oarlock::SamplerOptions options;
  options.num_examples = num_examples;
  options.batch_size = config.batch_size();
  options.rank = group.rank();
  options.size = group.size();
  options.seed = config.seed();
  options.shuffle = training;
  // Training drops what makes no full batch; evaluation counts every image
  // once.
  options.tail = training ? oarlock::TailRule::kDropShort
                          : oarlock::TailRule::kPad;
  return DistributedBatchSampler::Create(options);
}

class Training {
 public:
  Training(const Experiment& experiment, WorkerGroup* group)
      : experiment_(experiment),
        config_(experiment.args.config),
        group_(*group) {}

  absl::Status Run() {
    OARLOCK_RETURN_IF_ERROR(Prepare());
    uint32_t epoch = 0;
    if (!config_.checkpoint_dir().empty()) {
      OARLOCK_ASSIGN_OR_RETURN(
          epoch, oarlock::RestoreReplica(config_.checkpoint_dir(), group_,
                                         *model_, *optimizer_));
    }
    for (; epoch < static_cast<uint32_t>(config_.epochs()); ++epoch) {
      OARLOCK_RETURN_IF_ERROR(Epoch(epoch));
      if (config_.checkpoint_dir().empty()) continue;
      OARLOCK_RETURN_IF_ERROR(
          oarlock::SaveReplica(config_.checkpoint_dir(), epoch + 1, group_,
                               *model_, *optimizer_));
    }
    return WriteSummary();
  }

 private:
  // Data, samplers, model and optimizer.
  absl::Status Prepare() {
    OARLOCK_ASSIGN_OR_RETURN(data_, experiment_.open(config_));
    OARLOCK_ASSIGN_OR_RETURN(
        train_sampler_,
        SamplerOf(config_, group_, data_.train->size(), /*training=*/true));
    OARLOCK_ASSIGN_OR_RETURN(
        test_sampler_,
        SamplerOf(config_, group_, data_.test->size(), /*training=*/false));
    if (train_sampler_->num_batches() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there are ", data_.train->size(), " training images, fewer than the ",
          group_.size() * config_.batch_size(), " of a step of all ",
          group_.size(), " workers; lower --batch_size"));
    }
    OARLOCK_ASSIGN_OR_RETURN(
        train_transform_,
        ImageTransform::Create(data_.train->shape(),
                               config_.augment() ? experiment_.augmentation
                                                 : oarlock::Augmentation(),
                               config_.seed()));
    OARLOCK_ASSIGN_OR_RETURN(
        test_transform_,
        ImageTransform::Create(data_.test->shape(), {}, config_.seed()));
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<oarlock::Network> network,
                             experiment_.network(data_));
    oarlock::DistributedModelOptions options;
    options.batch_size = config_.batch_size();
    options.seed = config_.seed();
    options.compute_threads = config_.compute_threads() > 0
                                  ? config_.compute_threads()
                                  : oarlock::DefaultComputeThreads();
    if (config_.math() == "bfloat16") options.math_backend = "onednn_bfloat16";
    OARLOCK_ASSIGN_OR_RETURN(
        model_, DistributedModel::Create(&group_, std::move(network), options));
    const oarlock::DistributedStrategy strategy = StrategyOf(config_);
    const uint64_t updates = train_sampler_->num_batches() * config_.epochs() /
                             strategy.accumulate_steps;
    const uint64_t images = uint64_t{group_.size()} * config_.batch_size() *
                            strategy.accumulate_steps;
    OARLOCK_ASSIGN_OR_RETURN(
        optimizer_,
        DistributedOptimizer::Create(&group_, model_.get(),
                                     OptimizerOf(config_, updates, images),
                                     strategy));
    return absl::OkStatus();
  }

  absl::Status Epoch(uint32_t epoch) {
    const absl::Time start = oarlock::Clock::Real().Now();
    OARLOCK_ASSIGN_OR_RETURN(ClassScores train, Train(epoch));
    const absl::Duration time = oarlock::Clock::Real().Now() - start;
    OARLOCK_ASSIGN_OR_RETURN(train, group_.Sum("train", epoch, train));
    OARLOCK_ASSIGN_OR_RETURN(ClassScores test, Evaluate(epoch));
    OARLOCK_ASSIGN_OR_RETURN(test, group_.Sum("test", epoch, test));
    const double seconds = absl::ToDoubleSeconds(time);
    images_ += train.num_examples();
    seconds_ += seconds;
    summary_.epochs.push_back({.train_accuracy = train.accuracy(),
                               .train_loss = train.mean_loss(),
                               .test_accuracy = test.accuracy(),
                               .test_loss = test.mean_loss(),
                               .seconds = seconds});
    if (group_.rank() == 0) {
      std::printf("epoch %u/%d  train accuracy %.4f loss %.4f  "
                  "test accuracy %.4f loss %.4f  %.0f images/s\n",
                  epoch + 1, config_.epochs(), train.accuracy(),
                  train.mean_loss(), test.accuracy(), test.mean_loss(),
                  train.num_examples() / seconds);
      std::fflush(stdout);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ClassScores> Train(uint32_t epoch) {
    ImageLoader loader(data_.train.get(), &*train_transform_,
                       train_sampler_->Epoch(epoch), LoaderOptions());
    ClassScores scores;
    for (uint64_t step = 1;; ++step) {
      OARLOCK_ASSIGN_OR_RETURN(const ImageBatch* const batch, loader.Next());
      if (batch == nullptr) return scores;
      const ClassScores of_batch = model_->Forward(*batch);
      model_->Backward();
      OARLOCK_RETURN_IF_ERROR(optimizer_->Step());
      scores.Merge(of_batch);
      if (!std::isfinite(of_batch.mean_loss())) {
        return absl::FailedPreconditionError(absl::StrCat(
            "the loss of epoch ", epoch + 1, ", step ", step, " is ",
            of_batch.mean_loss(), "; lower --learning_rate"));
      }
      if (config_.print_steps() > 0 && step % config_.print_steps() == 0) {
        spdlog::info("epoch {} step {}  loss {:.4f}  accuracy {:.4f}",
                     epoch + 1, step, of_batch.mean_loss(), scores.accuracy());
      }
    }
  }

  absl::StatusOr<ClassScores> Evaluate(uint32_t epoch) {
    OARLOCK_RETURN_IF_ERROR(model_->ShareStatistics());
    ImageLoader loader(data_.test.get(), &*test_transform_,
                       test_sampler_->Epoch(epoch), LoaderOptions());
    ClassScores scores;
    while (true) {
      OARLOCK_ASSIGN_OR_RETURN(const ImageBatch* const batch, loader.Next());
      if (batch == nullptr) return scores;
      scores.Merge(model_->Evaluate(*batch));
    }
  }

  oarlock::ImageLoaderOptions LoaderOptions() const {
    oarlock::ImageLoaderOptions options;
    options.num_workers = config_.num_workers();
    return options;
  }

  absl::Status WriteSummary() {
    if (group_.rank() != 0) return absl::OkStatus();
    summary_.name = experiment_.name;
    summary_.group = group_.Describe();
    summary_.ranks = group_.size();
    summary_.batch_size = uint64_t{group_.size()} * config_.batch_size();
    summary_.images_per_second = seconds_ > 0 ? images_ / seconds_ : 0;
    summary_.gradient_bytes = model_->parameters().size() * sizeof(float);
    summary_.times = optimizer_->times();
    std::error_code ignored;
    std::filesystem::create_directories(config_.log_dir(), ignored);
    return oarlock::WriteClassificationSummary(
        summary_, absl::StrCat(config_.log_dir(), "/summary.json"));
  }

  const Experiment& experiment_;
  const v1::ImageConfig& config_;
  WorkerGroup& group_;
  ImageData data_;
  std::optional<DistributedBatchSampler> train_sampler_;
  std::optional<DistributedBatchSampler> test_sampler_;
  std::optional<ImageTransform> train_transform_;
  std::optional<ImageTransform> test_transform_;
  std::unique_ptr<DistributedModel> model_;
  // After the model, which it refers to.
  std::unique_ptr<DistributedOptimizer> optimizer_;
  // Of all epochs of this run.
  double images_ = 0;
  double seconds_ = 0;
  oarlock::ClassificationSummary summary_;
};

absl::Status Serve(const Experiment& experiment) {
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<oarlock::Fleet> fleet,
      oarlock::Fleet::Init(JobOf(experiment.args.config),
                           experiment.args.role));
  OARLOCK_RETURN_IF_ERROR(fleet->InitServer());
  return fleet->RunServer();
}

}  // namespace

absl::Status Run(const Experiment& experiment) {
  const Args& args = experiment.args;
  if (args.role.role == oarlock::Role::kServer) return Serve(experiment);
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<WorkerGroup> group,
      oarlock::JoinWorkers(JobOf(args.config), args.role,
                           StrategyOf(args.config)));
  // The training ends before the group is left.
  absl::Status trained = Training(experiment, group.get()).Run();
  const absl::Status left = group->Leave(trained);
  return trained.ok() ? left : trained;
}

int Main(const oarlock::CommandSyntax& syntax, Experiment experiment,
         const v1::ImageConfig& defaults, int argc, char** argv) {
  return Main(syntax, std::move(experiment),
              ParseArgs(syntax, defaults, argc, argv));
}

int Main(const oarlock::CommandSyntax& syntax, Experiment experiment,
         absl::StatusOr<Args> args) {
  if (!args.ok()) return oarlock::ReportUsageError(syntax, args.status());
  if (args->help.has_value()) {
    std::printf("%s", args->help->c_str());
    return 0;
  }
  experiment.args = *std::move(args);
  const absl::Status status = Run(experiment);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", syntax.name.c_str(),
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace images
