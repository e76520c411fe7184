// What a worker has to do in one phase: leased, or its share of a static split.

#ifndef OARLOCK_WORKER_INPUT_EPOCH_RANGES_H_
#define OARLOCK_WORKER_INPUT_EPOCH_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/types.h"
#include "client/job_client.h"
#include "data/batch_source.h"
#include "data/order/example_intervals.h"
#include "data/order/position_runs.h"
#include "data/order/source_index.h"
#include "data/order/static_split.h"
#include "data/parse/bad_lines.h"
#include "data/range_source.h"
#include "worker/input/leased_ranges.h"

namespace oarlock::worker {

// One thread at a time, but for the sources, which are thread-safe.
class EpochRanges {
 public:
  // For that compute thread, or for push completions, whose number is 0.
  using NewReader = std::function<std::unique_ptr<data::BatchSource>(
      size_t compute_thread, data::RangeSource*, data::BadLines*)>;

  virtual ~EpochRanges() = default;
  // One for each compute thread; the same one may stand there several times.
  virtual const std::vector<data::RangeSource*>& sources() const = 0;
  // Rounds of the reader that has the most of them, of all workers. Nothing:
  // not known beforehand.
  virtual std::optional<uint64_t> num_rounds() const = 0;
  // To be asked when the compute threads' sources are empty and all that was
  // read has been pushed and acknowledged. True: there is more, as when another
  // worker was lost; the compute threads have to run once more. False: the
  // phase is over.
  virtual absl::StatusOr<bool> AwaitMore() = 0;
  // What reads items of the compute threads' sources, and of push completions;
  // null: a BatchReader does, since they are lines of the files
  // (EpochContext::new_reader).
  virtual NewReader new_reader() const = 0;
};

// Positions 0 to num_positions - 1 in leases of BlocksOfRange times
// `lease_examples`.
std::vector<data::DataRange> PositionItems(uint64_t num_positions,
                                           uint64_t lease_examples);

// All compute threads share what the coordinator leases of the phase. `job` and
// `clock` outlive the result.
std::unique_ptr<EpochRanges> NewLeasedRanges(
    client::JobClient* job, const std::string& phase_name,
    size_t num_compute_threads, LeasedRanges::RunCompletion run_completion,
    EpochRanges::NewReader reader, const Clock& clock);

// Lines of files: each compute thread of each worker gets its share of the
// batches, in turn. `index` outlives the result.
std::unique_ptr<EpochRanges> NewInterleavedRanges(
    const data::SourceIndex* index, data::ExampleIntervals covered,
    uint64_t block_examples, WorkerIndex self, uint64_t num_workers,
    uint64_t num_compute_threads);

// Worker w takes shares[w], block by block, and its compute threads the blocks
// in turns: `reader` gives them out.
std::unique_ptr<EpochRanges> NewSharedRanges(
    std::vector<std::vector<data::ExampleRange>> shares,
    data::ExampleIntervals covered, uint64_t block_examples, WorkerIndex self,
    uint64_t num_compute_threads, EpochRanges::NewReader reader);

// Positions: compute thread t of worker w takes
// runs[w * num_compute_threads + t] of source 0; where workers have orders of
// their own, runs[t] of source w.
std::unique_ptr<EpochRanges> NewStaticRanges(
    std::vector<std::vector<data::PositionRun>> runs, bool own_orders,
    data::ExampleIntervals covered, uint64_t block_examples, WorkerIndex self,
    uint64_t num_workers, uint64_t num_compute_threads,
    EpochRanges::NewReader reader);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_INPUT_EPOCH_RANGES_H_
