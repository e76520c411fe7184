#include "worker/training_data.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/data/example_intervals.h"
#include "worker/data/file_list.h"

namespace oarlock {
namespace {

// A lease is about this many examples: small enough that lanes end together,
// large enough that asking costs nothing.
constexpr int64_t kLeaseExamples = 2048;
// Files are indexed by this many threads: it is one scan of memory.
constexpr int kIndexThreads = 2;

constexpr WorkerIndex kChief(0);

// All lanes share what the coordinator leases.
class LeasedPass : public PassWork {
 public:
  LeasedPass(JobClient* job, const std::string& work, size_t num_lanes,
             LeasedWork::Repair repair)
      : leased_(job, work, std::move(repair)), lanes_(num_lanes, &leased_) {}

  const std::vector<WorkSource*>& lanes() const override { return lanes_; }
  std::optional<uint64_t> num_rounds() const override { return std::nullopt; }
  // Ranges of a worker that was lost come back. Workers do not meet in between:
  // one that came late would find the pass over while others wait for it.
  absl::StatusOr<bool> AwaitMore() override {
    OARLOCK_RETURN_IF_ERROR(leased_.ReportDone());
    return leased_.AwaitMore();
  }

 private:
  LeasedWork leased_;
  const std::vector<WorkSource*> lanes_;
};

// Each lane of each worker gets its share of the batches, in turn.
class InterleavedPass : public PassWork {
 public:
  InterleavedPass(const SourceIndex* index, ExampleIntervals covered,
                  uint64_t block_examples, WorkerIndex self,
                  uint64_t num_workers, uint64_t num_lanes)
      : covered_(std::move(covered)) {
    const uint64_t num_readers = num_workers * num_lanes;
    for (uint64_t reader = 0; reader < num_readers; ++reader) {
      InterleavedSplit::Options options;
      options.block_examples = block_examples;
      options.reader_index = reader;
      options.num_readers = num_readers;
      options.covered = &covered_;
      auto split = std::make_unique<InterleavedSplit>(index, options);
      num_rounds_ = std::max(num_rounds_, split->num_blocks());
      if (reader / num_lanes != self.value()) continue;
      lanes_.push_back(split.get());
      splits_.push_back(std::move(split));
    }
  }

  const std::vector<WorkSource*>& lanes() const override { return lanes_; }
  std::optional<uint64_t> num_rounds() const override { return num_rounds_; }
  absl::StatusOr<bool> AwaitMore() override { return false; }

 private:
  const ExampleIntervals covered_;
  std::vector<std::unique_ptr<InterleavedSplit>> splits_;
  std::vector<WorkSource*> lanes_;
  uint64_t num_rounds_ = 0;
};

}  // namespace

DataOptions DataOptionsOf(const v1::JobConfig& config) {
  DataOptions options;
  options.format = config.data_format() == "multi_slot"
                       ? DataOptions::Format::kMultiSlot
                       : DataOptions::Format::kCriteo;
  // A command's output is Paddle's multi-slot text.
  if (!config.pipe_command().empty()) {
    options.format = DataOptions::Format::kMultiSlot;
  }
  options.dense_transform =
      config.dense_transform() == "quick_start"
          ? DataOptions::DenseTransform::kQuickStart
      : config.dense_transform() == "bucket"
          ? DataOptions::DenseTransform::kBucket
          : DataOptions::DenseTransform::kLog1p;
  options.sparse_feature_dim = config.sparse_feature_dim();
  options.pipe_command = config.pipe_command();
  options.bad_lines_max = config.bad_lines_max();
  return options;
}

TrainingData::TrainingData(const v1::JobConfig& config, Division division,
                           JobClient* job)
    : config_(config), division_(division), job_(job) {}

absl::StatusOr<std::unique_ptr<TrainingData>> TrainingData::Open(
    const v1::JobConfig& config, const std::vector<std::string>& patterns,
    Division division, JobClient* job) {
  auto data = absl::WrapUnique(new TrainingData(config, division, job));
  if (patterns.empty()) return data;
  OARLOCK_ASSIGN_OR_RETURN(data->files_,
                           ExpandFileList(absl::StrJoin(patterns, ",")));
  if (!config.pipe_command().empty()) {
    data->items_ = WholeFileItems(data->files_.size());
  } else if (data->IsStatic() || job->worker_index() == kChief) {
    // Only worker 0 hands out work, unless every worker computes its own share.
    OARLOCK_RETURN_IF_ERROR(data->ReadIndex());
  }
  return data;
}

absl::Status TrainingData::ReadIndex() {
  const int64_t batch = config_.batch_size();
  const int64_t block = std::max<int64_t>(1, kLeaseExamples / batch) * batch;
  OARLOCK_ASSIGN_OR_RETURN(SourceIndex index,
                           BuildSourceIndex(files_, block, kIndexThreads));
  index_.emplace(std::move(index));
  items_ = index_->Items();
  num_examples_ = index_->total_examples();
  return absl::OkStatus();
}

bool TrainingData::IsStatic() const {
  if (division_ == Division::kLeased) return false;
  if (config_.split() == "auto") {
    // A command's output cannot be addressed, so it cannot be split.
    return config_.mode() == "sync" && config_.pipe_command().empty();
  }
  return config_.split() == "interleaved";
}

absl::StatusOr<std::unique_ptr<PassWork>> TrainingData::StartPass(
    const std::string& work, LeasedWork::Repair repair) const {
  return IsStatic() ? StartStatic(work) : StartLeased(work, std::move(repair));
}

absl::StatusOr<std::unique_ptr<PassWork>> TrainingData::StartLeased(
    const std::string& work, LeasedWork::Repair repair) const {
  if (job_->worker_index() == kChief) {
    OARLOCK_RETURN_IF_ERROR(
        job_->DefineWork(work, items_, num_examples_).status());
  }
  OARLOCK_RETURN_IF_ERROR(job_->Barrier(absl::StrCat(work, "/defined")));
  return std::make_unique<LeasedPass>(
      job_, work, static_cast<size_t>(config_.thread_num()), std::move(repair));
}

absl::StatusOr<std::unique_ptr<PassWork>> TrainingData::StartStatic(
    const std::string& work) const {
  if (!index_.has_value()) {
    return absl::InvalidArgumentError(
        "--split interleaved needs files whose lines can be counted; it does "
        "not go with --pipe_command, use --split leased");
  }
  // Nobody leases this work: it is for the progress line, and for what of it
  // was trained before the job was resumed.
  OARLOCK_ASSIGN_OR_RETURN(ExampleIntervals covered,
                           job_->DefineWork(work, {}, num_examples_));
  return std::make_unique<InterleavedPass>(
      &*index_, std::move(covered), static_cast<uint64_t>(config_.batch_size()),
      job_->worker_index(), job_->num_workers(),
      static_cast<uint64_t>(config_.thread_num()));
}

}  // namespace oarlock
