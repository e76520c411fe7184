#include "fleet/data_parallel/collective_group.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "collective/communicator.h"
#include "collective/group.h"
#include "fleet/data_parallel/bucket_reducer.h"
#include "fleet/worker_connection.h"
#include "optim/dense_optimizer.h"
#include "optim/initializer.h"
#include "optim/update_device.h"
#include "worker/nn/cuda/rule_runner.h"
#include "worker/nn/math_backend.h"

namespace oarlock {
namespace {

absl::StatusOr<WireFormat> ParseWireFormat(const std::string& name) {
  if (name == "float32") return WireFormat::kFloat32;
  if (name == "float16") return WireFormat::kFloat16;
  if (name == "bfloat16") return WireFormat::kBfloat16;
  return absl::InvalidArgumentError(
      absl::StrCat("the strategy's gradient_format is ", name,
                   "; legal are float32, float16 and bfloat16"));
}

// As a dense table of servers begins.
absl::Status FillInitialValues(const v1::TableConfig& table,
                               absl::Span<float> values) {
  const auto& parameters = table.dense().parameters();
  for (int i = 0; i < parameters.size(); ++i) {
    OARLOCK_ASSIGN_OR_RETURN(
        const InitialValues initial,
        InitialValues::Create(parameters[i].initializer(), table.seed(),
                              TableId(table.id())));
    const size_t begin = parameters[i].offset();
    const size_t end =
        i + 1 < parameters.size() ? parameters[i + 1].offset() : values.size();
    initial.FillRange(begin, values.data() + begin, end - begin);
  }
  return absl::OkStatus();
}

// Everything of a table that ranks must have in common.
std::string Describe(const v1::TableConfig& table) {
  std::string text;
  for (const v1::DenseParameter& parameter : table.dense().parameters()) {
    absl::StrAppend(&text, parameter.ShortDebugString(), "; ");
  }
  return absl::StrCat(text, table.optimizer().ShortDebugString(), "; seed ",
                      table.seed());
}

// Every rank sums what all have and applies it to its own parameters. What lies
// in a backend's memory is copied to the host to travel, and back.
class SumExchange : public GradientExchange {
 public:
  // `reducer` is null for one rank, `backend` where all is the host's.
  SumExchange(const v1::TableConfig& table, Communicator* communicator,
              std::unique_ptr<BucketReducer> reducer, DenseOptimizer optimizer,
              MathBackend* backend)
      : table_(table),
        communicator_(communicator),
        reducer_(std::move(reducer)),
        optimizer_(std::move(optimizer)),
        backend_(backend) {}

  ~SumExchange() override {
    const ExchangeTimes sums = times();
    if (sums.communication == absl::ZeroDuration()) return;
    spdlog::info(
        "gradients were summed for {:.2f} s, of which {:.2f} s were "
        "not hidden behind backward",
        absl::ToDoubleSeconds(sums.communication),
        absl::ToDoubleSeconds(sums.exposed));
  }

  absl::Status Begin(absl::Span<float> values) override {
    std::vector<float> initial(values.size());
    OARLOCK_RETURN_IF_ERROR(FillInitialValues(table_, absl::MakeSpan(initial)));
    OARLOCK_RETURN_IF_ERROR(
        communicator_->Broadcast(absl::MakeSpan(initial), /*root=*/0));
    if (backend_ == nullptr) {
      std::copy(initial.begin(), initial.end(), values.begin());
    } else {
      backend_->CopyIn(initial.data(), initial.size() * sizeof(float),
                       values.data());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> BeginEpoch(uint32_t epoch, uint64_t num_updates,
                                      uint64_t examples_per_update,
                                      absl::Span<float> values) override {
    // A rank with more of them would wait for the others in vain.
    OARLOCK_RETURN_IF_ERROR(CheckAllAgree(
        *communicator_, "the pass",
        absl::StrCat("number ", epoch, ", ", num_updates, " updates of ",
                     examples_per_update, " examples of each rank")));
    return 0;
  }

  void GradientsFinal(absl::Span<float> gradients, size_t begin) override {
    if (reducer_ == nullptr) return;
    // A copy waits for the device: one for each bucket, not for each layer.
    if (!reducer_->Takes(gradients.size(), begin)) return;
    reducer_->Final(OnHost(gradients, begin), begin);
  }

  absl::Status EndStep(absl::Span<float> gradients,
                       absl::Span<float> values) override {
    if (reducer_ != nullptr) {
      const absl::Span<float> sums = OnHost(gradients, 0);
      OARLOCK_RETURN_IF_ERROR(reducer_->Finish(sums));
      if (backend_ != nullptr) {
        backend_->CopyIn(sums.data(), sums.size() * sizeof(float),
                         gradients.data());
      }
      copied_begin_.reset();
    }
    optimizer_.Step(values.data(), gradients.data());
    return absl::OkStatus();
  }

  ExchangeTimes times() const override {
    return reducer_ == nullptr ? ExchangeTimes() : reducer_->times();
  }

  std::string SaveState() const override { return optimizer_.SaveState(); }
  absl::Status RestoreState(absl::string_view state) override {
    return optimizer_.RestoreState(state);
  }

 private:
  // The gradients where the communicator can read them, those from `begin` on.
  absl::Span<float> OnHost(absl::Span<float> gradients, size_t begin) {
    if (backend_ == nullptr) return gradients;
    on_host_.resize(gradients.size());
    const size_t end = copied_begin_.value_or(gradients.size());
    // What was copied before is being summed.
    backend_->CopyOut(gradients.data() + begin, (end - begin) * sizeof(float),
                      on_host_.data() + begin);
    copied_begin_ = begin;
    return absl::MakeSpan(on_host_);
  }

  const v1::TableConfig table_;
  Communicator* const communicator_;
  // Of the step under way: gradients from the backend, of which those from
  // copied_begin_ on are there; none before the first copy. The reducer reads
  // them until it ends.
  std::vector<float> on_host_;
  std::optional<size_t> copied_begin_;
  const std::unique_ptr<BucketReducer> reducer_;
  DenseOptimizer optimizer_;
  MathBackend* const backend_;
};

class CollectiveGroup : public WorkerGroup {
 public:
  CollectiveGroup(std::unique_ptr<Communicator> communicator, WireFormat format,
                  const DistributedStrategy& strategy)
      : WorkerGroup(strategy),
        communicator_(std::move(communicator)),
        format_(format),
        bucket_floats_(
            std::max<size_t>(1, strategy.bucket_bytes / sizeof(float))) {}

  uint32_t rank() const override { return communicator_->rank(); }
  uint32_t size() const override { return communicator_->size(); }
  std::string Describe() const override {
    if (size() == 1) return "alone";
    return absl::StrCat("rank ", rank(), " of ", size(), ", collective");
  }

  bool keeps_parameters() const override { return true; }
  absl::StatusOr<std::unique_ptr<GradientExchange>> NewExchange(
      const v1::TableConfig& table, MathBackend* backend) override {
    std::vector<ParameterBlock> blocks;
    const auto& parameters = table.dense().parameters();
    for (int i = 0; i < parameters.size(); ++i) {
      const uint64_t end = i + 1 < parameters.size()
                               ? parameters[i + 1].offset()
                               : table.dense().size();
      // A vector is a bias or belongs to batch norm.
      blocks.push_back({.size = end - parameters[i].offset(),
                        .decays = parameters[i].shape_size() > 1});
    }
    std::unique_ptr<UpdateDevice> device;
    if (backend != nullptr) {
      device = cuda::NewRuleRunner(backend->compute_device());
    }
    OARLOCK_ASSIGN_OR_RETURN(
        DenseOptimizer optimizer,
        DenseOptimizer::Create(table.optimizer(), blocks, std::move(device)));
    OARLOCK_RETURN_IF_ERROR(
        CheckAllAgree(*communicator_, "the model", oarlock::Describe(table)));
    // Of other buckets ranks would wait for each other in vain.
    OARLOCK_RETURN_IF_ERROR(CheckAllAgree(
        *communicator_, "the strategy",
        absl::StrCat("gradient_format ", strategy().gradient_format,
                     ", bucket_bytes ", strategy().bucket_bytes)));
    // Replicas would drift apart by rounding.
    if (optimizer.takes_means()) {
      OARLOCK_RETURN_IF_ERROR(CheckAllAgree(
          *communicator_,
          "the device (GPU or CPU), with lars and other rules that take means,",
          backend == nullptr ? "CPU" : "GPU"));
    }
    std::unique_ptr<BucketReducer> reducer;
    if (size() > 1) {
      OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> fork,
                               communicator_->Fork());
      reducer = std::make_unique<BucketReducer>(std::move(fork), bucket_floats_,
                                                format_);
    }
    return std::make_unique<SumExchange>(table, communicator_.get(),
                                         std::move(reducer),
                                         std::move(optimizer), backend);
  }

  absl::StatusOr<ClassScores> Sum(const std::string& phase, uint32_t epoch,
                                  const ClassScores& mine) override {
    auto sums = mine.ToSums();
    OARLOCK_RETURN_IF_ERROR(communicator_->AllReduceSum(
        absl::Span<double>(sums.data(), sums.size())));
    return ClassScores::FromSums(sums);
  }

  absl::Status Broadcast(std::string* bytes) override {
    uint64_t size = bytes->size();
    OARLOCK_RETURN_IF_ERROR(
        communicator_->Broadcast(absl::MakeSpan(&size, 1), /*root=*/0));
    bytes->resize(size);
    return communicator_->Broadcast(
        absl::Span<char>(bytes->data(), bytes->size()), /*root=*/0);
  }
  bool can_broadcast() const override { return true; }

  absl::Status Checkpoint() override {
    return absl::FailedPreconditionError(
        "the job has no servers that make checkpoints; SaveReplica makes one");
  }
  bool makes_checkpoints() const override { return false; }

  absl::Status Barrier(const std::string& name) override {
    return communicator_->Barrier();
  }

  absl::Status Leave(const absl::Status& outcome) override {
    // Who goes without a word has failed, and the others are told.
    if (!outcome.ok()) return absl::OkStatus();
    return communicator_->Leave();
  }

 private:
  const std::unique_ptr<Communicator> communicator_;
  const WireFormat format_;
  const size_t bucket_floats_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinCollectiveGroup(
    const v1::JobConfig& config, const RoleAssignment& role,
    const DistributedStrategy& strategy) {
  OARLOCK_ASSIGN_OR_RETURN(const WireFormat format,
                           ParseWireFormat(strategy.gradient_format));
  GroupOptions options = GroupOptionsOf(role);
  options.job_id = JobIdOf(config, role);
  options.security = SecurityOf(config, role);
  options.join_timeout = absl::Seconds(config.connect_timeout_s());
  options.silence_timeout = absl::Seconds(config.lease_s());
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                           JoinGroup(options));
  return std::make_unique<CollectiveGroup>(std::move(communicator), format,
                                           strategy);
}

}  // namespace oarlock
