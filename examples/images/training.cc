#include "examples/images/training.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/environment.h"
#include "data/images/image_loader.h"
#include "fleet/data_parallel.h"
#include "fleet/data_parallel/training_summary.h"
#include "fleet/fleet.h"
#include "nn/backends/device_choice.h"
#include "nn/cpu/math_threads.h"

namespace images {
namespace {

using oarlock::ClassScores;
using oarlock::DistributedModel;
using oarlock::DistributedOptimizer;
using oarlock::WorkerGroup;
using oarlock::data::DistributedBatchSampler;
using oarlock::data::ImageBatch;
using oarlock::data::ImageLoader;
using oarlock::data::ImageTransform;

// Evaluation counts every image once.
absl::StatusOr<DistributedBatchSampler> TestSamplerOf(
    const v1::ImageConfig& config, const WorkerGroup& group,
    uint64_t num_examples) {
  oarlock::data::SamplerOptions options;
  options.num_examples = num_examples;
  options.batch_size = config.batch_size();
  options.rank = group.rank();
  options.size = group.size();
  options.tail = oarlock::data::TailRule::kPad;
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
    const uint32_t stride = config_.concatenate_epochs();
    // Servers know the begin of the last epoch that is over, not its length.
    if (!group_.can_broadcast()) epoch = (epoch + stride - 1) / stride * stride;
    if (epoch % stride != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--concatenate_epochs is ", stride, ", and the checkpoint is after ",
          epoch, " epochs; legal is what divides both"));
    }
    const uint32_t num_epochs = config_.epochs();
    if (epoch >= num_epochs) {
      oarlock::Log().info("all {} epochs were trained before", num_epochs);
      OARLOCK_RETURN_IF_ERROR(Epoch(num_epochs - stride, /*trains=*/false));
    }
    for (; epoch < num_epochs; epoch += stride) {
      OARLOCK_RETURN_IF_ERROR(Epoch(epoch, /*trains=*/true));
      if (config_.checkpoint_dir().empty()) continue;
      OARLOCK_RETURN_IF_ERROR(oarlock::SaveReplica(config_.checkpoint_dir(),
                                                   epoch + stride, group_,
                                                   *model_, *optimizer_));
    }
    return WriteSummary();
  }

 private:
  // Data, samplers, model and optimizer.
  absl::Status Prepare() {
    if (group_.rank() == 0) {
      // Before hours of training, not after.
      std::error_code error;
      std::filesystem::create_directories(config_.log_dir(), error);
      if (error) {
        return absl::UnavailableError(absl::StrCat(
            "--log_dir is ", config_.log_dir(), ", which cannot be made: ",
            error.message(), "; name a folder that can be written"));
      }
    }
    OARLOCK_ASSIGN_OR_RETURN(
        train_, OpenTrainingImages(config_, experiment_.source, group_.rank(),
                                   group_.size()));
    const ImageData& data = train_->data;
    OARLOCK_ASSIGN_OR_RETURN(test_sampler_,
                             TestSamplerOf(config_, group_, data.test->size()));
    OARLOCK_ASSIGN_OR_RETURN(
        train_transform_, ImageTransform::Create(
                              train_->images->shape(),
                              config_.augment() ? experiment_.augmentation
                                                : oarlock::data::Augmentation(),
                              train_->seed));
    OARLOCK_ASSIGN_OR_RETURN(
        test_transform_,
        ImageTransform::Create(data.test->shape(), {}, config_.seed()));
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<oarlock::nn::Network> network,
                             experiment_.network(data));
    oarlock::DistributedModelOptions options;
    options.batch_size = config_.batch_size();
    options.seed = config_.seed();
    options.math_threads = config_.math_threads() > 0
                               ? config_.math_threads()
                               : oarlock::nn::DefaultMathThreads();
    OARLOCK_ASSIGN_OR_RETURN(
        const oarlock::nn::DeviceChoice choice,
        oarlock::nn::ChooseDevice(config_.device(), config_.math(),
                                  group_.rank(),
                                  oarlock::cluster::SelectedGpus(
                                      oarlock::cluster::ReadEnvironment())));
    if (!choice.log_line.empty()) oarlock::Log().info("{}", choice.log_line);
    options.math_backend = choice.math_backend;
    OARLOCK_ASSIGN_OR_RETURN(
        model_, DistributedModel::Create(&group_, std::move(network), options));
    // EndEpoch makes an update of what is left.
    const uint64_t steps = group_.strategy().accumulate_steps;
    const uint64_t updates = (train_->sampler.num_batches() + steps - 1) /
                             steps *
                             (config_.epochs() / config_.concatenate_epochs());
    const uint64_t images =
        uint64_t{group_.size()} * config_.batch_size() * steps;
    OARLOCK_ASSIGN_OR_RETURN(
        optimizer_,
        DistributedOptimizer::Create(&group_, model_.get(),
                                     OptimizerOf(config_, updates, images)));
    return absl::OkStatus();
  }

  // Epochs from number `epoch` on, until the next evaluation. Without `trains`
  // only that.
  absl::Status Epoch(uint32_t epoch, bool trains) {
    const absl::Time start = experiment_.clocks.monotonic->Now();
    ClassScores train;
    if (trains) {
      OARLOCK_ASSIGN_OR_RETURN(train, Train(epoch));
    }
    const absl::Duration time = experiment_.clocks.monotonic->Now() - start;
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
    if (group_.rank() == 0) Print(epoch, train, test, seconds);
    return absl::OkStatus();
  }

  void Print(uint32_t epoch, const ClassScores& train, const ClassScores& test,
             double seconds) const {
    std::printf("epoch %u/%d  ", epoch + config_.concatenate_epochs(),
                config_.epochs());
    if (train.num_examples() > 0) {
      std::printf("train accuracy %.4f loss %.4f  ", train.accuracy(),
                  train.mean_loss());
    }
    std::printf("test accuracy %.4f loss %.4f", test.accuracy(),
                test.mean_loss());
    if (train.num_examples() > 0) {
      std::printf("  %.0f images/s", train.num_examples() / seconds);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  // What was trained now; nothing if servers had all of it.
  absl::StatusOr<ClassScores> Train(uint32_t epoch) {
    OARLOCK_ASSIGN_OR_RETURN(
        const uint64_t first,
        optimizer_->BeginEpoch(epoch, train_->sampler.num_batches()));
    oarlock::data::ImageLoaderOptions loading = LoaderOptions();
    loading.first_batch = first;
    ImageLoader loader(
        train_->images, &*train_transform_,
        train_->sampler.Epoch(epoch / config_.concatenate_epochs()), loading);
    ClassScores scores;
    for (uint64_t step = first + 1;; ++step) {
      OARLOCK_ASSIGN_OR_RETURN(const ImageBatch* const batch, loader.Next());
      if (batch == nullptr) break;
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
        oarlock::Log().info("epoch {} step {}  loss {:.4f}  accuracy {:.4f}",
                            epoch + 1, step, of_batch.mean_loss(),
                            scores.accuracy());
      }
    }
    OARLOCK_RETURN_IF_ERROR(optimizer_->EndEpoch());
    return scores;
  }

  absl::StatusOr<ClassScores> Evaluate(uint32_t epoch) {
    OARLOCK_RETURN_IF_ERROR(model_->ShareStatistics());
    ImageLoader loader(train_->data.test.get(), &*test_transform_,
                       test_sampler_->Epoch(epoch), LoaderOptions());
    ClassScores scores;
    while (true) {
      OARLOCK_ASSIGN_OR_RETURN(const ImageBatch* const batch, loader.Next());
      if (batch == nullptr) return scores;
      scores.Merge(model_->Evaluate(*batch));
    }
  }

  oarlock::data::ImageLoaderOptions LoaderOptions() const {
    oarlock::data::ImageLoaderOptions options;
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
    summary_.gradient_bytes =
        model_->network().num_parameters() * sizeof(float);
    summary_.times = optimizer_->times();
    return oarlock::WriteClassificationSummary(
        summary_, absl::StrCat(config_.log_dir(), "/summary.json"));
  }

  const Experiment& experiment_;
  const v1::ImageConfig& config_;
  WorkerGroup& group_;
  std::optional<TrainingImages> train_;
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
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<oarlock::Fleet> fleet,
                           oarlock::Fleet::Init(JobOf(experiment.args.config),
                                                experiment.args.role));
  OARLOCK_RETURN_IF_ERROR(fleet->InitServer());
  return fleet->RunServer();
}

}  // namespace

absl::Status Run(const Experiment& experiment) {
  const Args& args = experiment.args;
  if (args.role.role == oarlock::cluster::Role::kServer)
    return Serve(experiment);
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<WorkerGroup> group,
                           oarlock::JoinWorkers(JobOf(args.config), args.role,
                                                StrategyOf(args.config)));
  // The training ends before the group is left.
  absl::Status trained = Training(experiment, group.get()).Run();
  const absl::Status left = group->Leave(trained);
  return trained.ok() ? left : trained;
}

int Main(const oarlock::flags::CommandSyntax& syntax, Experiment experiment,
         const v1::ImageConfig& defaults, int argc, char** argv) {
  return Main(syntax, std::move(experiment),
              ParseArgs(syntax, defaults, argc, argv));
}

int Main(const oarlock::flags::CommandSyntax& syntax, Experiment experiment,
         absl::StatusOr<Args> args) {
  if (!args.ok())
    return oarlock::flags::ReportUsageError(syntax, args.status());
  if (args->help.has_value()) {
    std::printf("%s", args->help->c_str());
    return 0;
  }
  experiment.args = *std::move(args);
  const absl::Status status = Run(experiment);
  if (status.ok()) return 0;
  if (absl::IsInvalidArgument(status)) {
    return oarlock::flags::ReportUsageError(syntax, status);
  }
  std::fprintf(stderr, "%s: %s\n", syntax.name.c_str(),
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace images
