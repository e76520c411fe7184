#include "worker/input/epoch_ranges.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace oarlock::worker {
namespace {

class LeasedEpoch : public EpochRanges {
 public:
  LeasedEpoch(client::JobClient* job, const std::string& phase_name,
              size_t num_compute_threads,
              LeasedRanges::RunCompletion run_completion, NewReader reader,
              const Clock& clock)
      : leased_(job, phase_name, std::move(run_completion), clock),
        sources_(num_compute_threads, &leased_),
        reader_(std::move(reader)) {}

  const std::vector<data::RangeSource*>& sources() const override {
    return sources_;
  }
  std::optional<uint64_t> num_rounds() const override { return std::nullopt; }
  // Ranges of a worker that was lost come back. Workers do not meet in between:
  // one that came late would find the phase over while others wait for it.
  absl::StatusOr<bool> AwaitMore() override {
    OARLOCK_RETURN_IF_ERROR(leased_.ReportDone());
    return leased_.AwaitMore();
  }
  NewReader new_reader() const override { return reader_; }

 private:
  LeasedRanges leased_;
  const std::vector<data::RangeSource*> sources_;
  const NewReader reader_;
};

// Each compute thread has a source of its own, of one kind.
template <typename Split>
class SplitEpoch : public EpochRanges {
 public:
  SplitEpoch(data::ExampleIntervals covered, NewReader reader)
      : covered_(std::move(covered)), reader_(std::move(reader)) {}

  const data::ExampleIntervals* covered() const { return &covered_; }
  // The split of one reader of the job; `is_own`: of one of this worker's.
  void Add(std::unique_ptr<Split> split, bool is_own) {
    num_rounds_ = std::max(num_rounds_, split->num_blocks());
    if (!is_own) return;
    sources_.push_back(split.get());
    splits_.push_back(std::move(split));
  }

  const std::vector<data::RangeSource*>& sources() const override {
    return sources_;
  }
  std::optional<uint64_t> num_rounds() const override { return num_rounds_; }
  absl::StatusOr<bool> AwaitMore() override { return false; }
  NewReader new_reader() const override { return reader_; }

 private:
  const data::ExampleIntervals covered_;
  const NewReader reader_;
  std::vector<std::unique_ptr<Split>> splits_;
  std::vector<data::RangeSource*> sources_;
  uint64_t num_rounds_ = 0;
};

// All compute threads share one split.
class SharedEpoch : public EpochRanges {
 public:
  SharedEpoch(data::ExampleIntervals covered, uint64_t num_compute_threads,
              NewReader reader)
      : covered_(std::move(covered)),
        num_compute_threads_(num_compute_threads),
        reader_(std::move(reader)) {}

  const data::ExampleIntervals* covered() const { return &covered_; }
  // The split of one worker; `is_own`: of this one.
  void Add(std::unique_ptr<data::RunSplit> split, bool is_own) {
    num_rounds_ =
        std::max(num_rounds_, (split->num_blocks() + num_compute_threads_ - 1) /
                                  num_compute_threads_);
    if (!is_own) return;
    sources_.assign(num_compute_threads_, split.get());
    own_ = std::move(split);
  }

  const std::vector<data::RangeSource*>& sources() const override {
    return sources_;
  }
  std::optional<uint64_t> num_rounds() const override { return num_rounds_; }
  absl::StatusOr<bool> AwaitMore() override { return false; }
  NewReader new_reader() const override { return reader_; }

 private:
  const data::ExampleIntervals covered_;
  const uint64_t num_compute_threads_;
  const NewReader reader_;
  std::unique_ptr<data::RunSplit> own_;
  std::vector<data::RangeSource*> sources_;
  uint64_t num_rounds_ = 0;
};

}  // namespace

std::vector<data::DataRange> PositionItems(uint64_t num_positions,
                                           uint64_t lease_examples) {
  std::vector<data::DataRange> items;
  for (uint64_t begin = 0; begin < num_positions;) {
    const uint64_t left = num_positions - begin;
    const uint64_t blocks =
        data::BlocksOfRange((left + lease_examples - 1) / lease_examples);
    const uint64_t end = begin + std::min(blocks * lease_examples, left);
    items.push_back({.begin = begin, .end = end});
    begin = end;
  }
  return items;
}

std::unique_ptr<EpochRanges> NewLeasedRanges(
    client::JobClient* job, const std::string& phase_name,
    size_t num_compute_threads, LeasedRanges::RunCompletion run_completion,
    EpochRanges::NewReader reader, const Clock& clock) {
  return std::make_unique<LeasedEpoch>(job, phase_name, num_compute_threads,
                                       std::move(run_completion),
                                       std::move(reader), clock);
}

std::unique_ptr<EpochRanges> NewInterleavedRanges(
    const data::SourceIndex* index, data::ExampleIntervals covered,
    uint64_t block_examples, WorkerIndex self, uint64_t num_workers,
    uint64_t num_compute_threads) {
  auto ranges = std::make_unique<SplitEpoch<data::InterleavedSplit>>(
      std::move(covered), nullptr);
  for (uint64_t reader = 0; reader < num_workers * num_compute_threads;
       ++reader) {
    data::InterleavedSplit::Options options;
    options.block_examples = block_examples;
    options.reader_index = reader;
    options.num_readers = num_workers * num_compute_threads;
    options.covered = ranges->covered();
    ranges->Add(std::make_unique<data::InterleavedSplit>(index, options),
                reader / num_compute_threads == self.value());
  }
  return ranges;
}

std::unique_ptr<EpochRanges> NewSharedRanges(
    std::vector<std::vector<data::ExampleRange>> shares,
    data::ExampleIntervals covered, uint64_t block_examples, WorkerIndex self,
    uint64_t num_compute_threads, EpochRanges::NewReader reader) {
  auto ranges = std::make_unique<SharedEpoch>(
      std::move(covered), num_compute_threads, std::move(reader));
  for (uint64_t worker = 0; worker < shares.size(); ++worker) {
    ranges->Add(
        std::make_unique<data::RunSplit>(std::move(shares[worker]),
                                         block_examples, ranges->covered()),
        worker == self.value());
  }
  return ranges;
}

std::unique_ptr<EpochRanges> NewStaticRanges(
    std::vector<std::vector<data::PositionRun>> runs, bool own_orders,
    data::ExampleIntervals covered, uint64_t block_examples, WorkerIndex self,
    uint64_t num_workers, uint64_t num_compute_threads,
    EpochRanges::NewReader reader) {
  auto ranges = std::make_unique<SplitEpoch<data::RunSplit>>(std::move(covered),
                                                             std::move(reader));
  for (uint64_t worker = 0; worker < num_workers; ++worker) {
    for (uint64_t thread = 0; thread < num_compute_threads; ++thread) {
      ranges->Add(
          std::make_unique<data::RunSplit>(
              data::RangesOf(
                  runs[own_orders ? thread
                                  : worker * num_compute_threads + thread],
                  own_orders ? static_cast<uint32_t>(worker) : 0),
              block_examples, ranges->covered()),
          worker == self.value());
    }
  }
  return ranges;
}

}  // namespace oarlock::worker
