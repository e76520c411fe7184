#include "fleet/data_parallel/collective_group.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/process/boot_id.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "cluster/endpoint.h"
#include "collective/communicator.h"
#include "collective/group.h"
#include "fleet/data_parallel/bucket_reducer.h"
#include "fleet/data_parallel/strategy_check.h"
#include "fleet/data_parallel/sum_communicator.h"
#include "fleet/role/worker_connection.h"
#include "nn/cuda/rule_runner.h"
#include "nn/math_backend.h"
#include "optim/dense_optimizer.h"
#include "optim/initializer.h"
#include "optim/update_device.h"

namespace oarlock {
namespace {

constexpr absl::Duration kMaxRingConnectTimeout = absl::Minutes(5);

absl::StatusOr<collective::WireFormat> ParseWireFormat(
    const std::string& name) {
  if (name == "float32") return collective::WireFormat::kFloat32;
  if (name == "float16") return collective::WireFormat::kFloat16;
  if (name == "bfloat16") return collective::WireFormat::kBfloat16;
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
        const optim::InitialValues initial,
        optim::InitialValues::Create(parameters[i].initializer(), table.seed(),
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

// SumOptions::machine. Where the kernel does not tell, containers of a machine
// with addresses of their own are taken for several.
std::string MachineOf(const collective::GroupOptions& options) {
  const std::string boot_id = BootId();
  if (!boot_id.empty() || options.endpoints.empty()) return boot_id;
  return cluster::HostOf(options.endpoints[options.rank]);
}

// Every rank sums what all have and applies it to its own parameters. What lies
// in a backend's memory travels from there between GPUs, else it is copied to
// the host to travel, and back.
class SumExchange : public GradientExchange {
 public:
  // `reducer`, which sums by `sums`, is null for one rank; `backend` where all
  // is the host's. Communicators of GPUs go to `ended`, not away, when this
  // ends.
  SumExchange(const v1::TableConfig& table,
              collective::Communicator* communicator, SumCommunicator sums,
              std::unique_ptr<BucketReducer> reducer,
              optim::DenseOptimizer optimizer, nn::MathBackend* backend,
              std::vector<std::unique_ptr<collective::Communicator>>* ended)
      : table_(table),
        communicator_(communicator),
        sums_(std::move(sums)),
        reducer_(std::move(reducer)),
        optimizer_(std::move(optimizer)),
        backend_(backend),
        ended_(ended) {}

  ~SumExchange() override {
    const ExchangeTimes spent = times();
    reducer_.reset();
    if (sums_.on_gpus) ended_->push_back(std::move(sums_.communicator));
    if (spent.communication == absl::ZeroDuration()) return;
    Log().info(
        "gradients were summed for {:.2f} s, of which {:.2f} s were "
        "not hidden behind backward",
        absl::ToDoubleSeconds(spent.communication),
        absl::ToDoubleSeconds(spent.exposed));
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
    OARLOCK_RETURN_IF_ERROR(collective::CheckAllAgree(
        *communicator_, "the epoch",
        absl::StrCat("number ", epoch, ", ", num_updates, " updates of ",
                     examples_per_update, " examples of each rank")));
    return 0;
  }

  void GradientsFinal(absl::Span<float> gradients, size_t begin) override {
    if (reducer_ == nullptr) return;
    // Waits for the device: once for each bucket, not for each layer.
    if (!reducer_->Takes(gradients.size(), begin)) return;
    reducer_->Final(Computed(gradients, begin), begin);
  }

  absl::Status EndStep(absl::Span<float> gradients,
                       absl::Span<float> values) override {
    if (reducer_ != nullptr) {
      const absl::Span<float> sums = Computed(gradients, 0);
      // On GPUs too they are there when this returns: an update that is queued
      // from now on reads them.
      OARLOCK_RETURN_IF_ERROR(reducer_->Finish(sums));
      if (sums.data() != gradients.data()) {
        backend_->CopyIn(sums.data(), sums.size() * sizeof(float),
                         gradients.data());
      }
      computed_begin_.reset();
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
  // The gradients where the reducer reads them: those from `begin` on have been
  // computed.
  absl::Span<float> Computed(absl::Span<float> gradients, size_t begin) {
    if (backend_ == nullptr) return gradients;
    // What is behind it is being summed.
    const size_t end = computed_begin_.value_or(gradients.size());
    computed_begin_ = begin;
    if (sums_.on_gpus) {
      // A copy waits for all that was queued before it: one float is enough.
      // NCCL's queue is another than the backend's and waits for nothing.
      float first = 0;
      const size_t num_bytes = begin < end ? sizeof(first) : 0;
      backend_->CopyOut(gradients.data() + begin, num_bytes, &first);
      return gradients;
    }
    on_host_.resize(gradients.size());
    backend_->CopyOut(gradients.data() + begin, (end - begin) * sizeof(float),
                      on_host_.data() + begin);
    return absl::MakeSpan(on_host_);
  }

  const v1::TableConfig table_;
  collective::Communicator* const communicator_;
  // Of the step under way: gradients from computed_begin_ on were waited for;
  // none before the first call of Computed.
  std::optional<size_t> computed_begin_;
  // Copies of those, unless they travel from where they are. The reducer reads
  // them until it ends.
  std::vector<float> on_host_;
  SumCommunicator sums_;
  std::unique_ptr<BucketReducer> reducer_;
  optim::DenseOptimizer optimizer_;
  nn::MathBackend* const backend_;
  std::vector<std::unique_ptr<collective::Communicator>>* const ended_;
};

class CollectiveGroup : public WorkerGroup {
 public:
  CollectiveGroup(std::unique_ptr<collective::Communicator> communicator,
                  SumOptions sum_options, const DistributedStrategy& strategy)
      : WorkerGroup(strategy),
        communicator_(std::move(communicator)),
        sum_options_(std::move(sum_options)),
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
      const v1::TableConfig& table, nn::MathBackend* backend) override {
    std::vector<optim::ParameterBlock> blocks;
    const auto& parameters = table.dense().parameters();
    for (int i = 0; i < parameters.size(); ++i) {
      const uint64_t end = i + 1 < parameters.size()
                               ? parameters[i + 1].offset()
                               : table.dense().size();
      // A vector is a bias or belongs to batch norm.
      blocks.push_back({.size = end - parameters[i].offset(),
                        .decays = parameters[i].shape_size() > 1});
    }
    std::unique_ptr<optim::UpdateDevice> device;
    if (backend != nullptr) {
      device = nn::cuda::NewRuleRunner(backend->compute_device());
    }
    OARLOCK_ASSIGN_OR_RETURN(optim::DenseOptimizer optimizer,
                             optim::DenseOptimizer::Create(
                                 table.optimizer(), blocks, std::move(device)));
    OARLOCK_RETURN_IF_ERROR(collective::CheckAllAgree(
        *communicator_, "the model", oarlock::Describe(table)));
    // Here all ranks are done with what ended on this one.
    ended_.clear();
    // Of other buckets, or elsewhere, ranks would wait for each other in vain.
    OARLOCK_RETURN_IF_ERROR(collective::CheckAllAgree(
        *communicator_, "the strategy",
        absl::StrCat("gradient_format ", strategy().gradient_format,
                     ", bucket_bytes ", strategy().bucket_bytes,
                     ", collective_backend ", strategy().collective_backend)));
    // Replicas would drift apart by rounding.
    if (optimizer.takes_means()) {
      OARLOCK_RETURN_IF_ERROR(collective::CheckAllAgree(
          *communicator_,
          "the device (GPU or CPU), with lars and other rules that take means,",
          backend == nullptr ? "CPU" : "GPU"));
    }
    SumCommunicator sums;
    std::unique_ptr<BucketReducer> reducer;
    if (size() > 1) {
      OARLOCK_ASSIGN_OR_RETURN(
          sums, NewSumCommunicator(*communicator_, sum_options_, backend));
      reducer = std::make_unique<BucketReducer>(
          sums.communicator.get(), bucket_floats_, sum_options_.format,
          *strategy().clocks.monotonic);
      sums_on_gpus_ |= sums.on_gpus;
    }
    return std::make_unique<SumExchange>(
        table, communicator_.get(), std::move(sums), std::move(reducer),
        std::move(optimizer), backend, &ended_);
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
    // This GPU may still be sending what the others' last sums wait for.
    if (sums_on_gpus_) OARLOCK_RETURN_IF_ERROR(communicator_->Barrier());
    return communicator_->Leave();
  }

 private:
  const std::unique_ptr<collective::Communicator> communicator_;
  const SumOptions sum_options_;
  const size_t bucket_floats_;
  // Whether an exchange has ever summed between GPUs; the same on all ranks.
  bool sums_on_gpus_ = false;
  // Of exchanges that ended here: a ring of GPUs must not go before all ranks
  // are done with its last sum (gpu_ring.h). They go when all have met again:
  // for the next exchange, or after Leave.
  std::vector<std::unique_ptr<collective::Communicator>> ended_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinCollectiveGroup(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const DistributedStrategy& strategy,
    collective::GpuRingFactory new_gpu_ring) {
  SumOptions sum_options;
  sum_options.new_gpu_ring = std::move(new_gpu_ring);
  sum_options.clocks = strategy.clocks;
  // Ranks that come hours later may be waited for; those that are there and
  // cannot reach each other shall not hold them up for as long.
  sum_options.connect_timeout = std::min(
      absl::Seconds(config.connect_timeout_s()), kMaxRingConnectTimeout);
  OARLOCK_ASSIGN_OR_RETURN(sum_options.format,
                           ParseWireFormat(strategy.gradient_format));
  OARLOCK_ASSIGN_OR_RETURN(sum_options.backend,
                           ParseCollectiveBackend(strategy.collective_backend));
  OARLOCK_RETURN_IF_ERROR(CheckFormatOfNccl(strategy, "the strategy's "));
  collective::GroupOptions options = collective::GroupOptionsOf(role);
  options.job_id = JobIdOf(config, role);
  options.security = SecurityOf(config, role);
  options.join_timeout = absl::Seconds(config.connect_timeout_s());
  options.heartbeat_timeout = absl::Seconds(config.lease_s());
  options.clocks = strategy.clocks;
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<collective::Communicator> communicator,
      collective::JoinGroup(options));
  sum_options.machine = MachineOf(options);
  return std::make_unique<CollectiveGroup>(std::move(communicator),
                                           std::move(sum_options), strategy);
}

}  // namespace oarlock
