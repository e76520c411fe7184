// The examples of a job's files on one worker: where they lie, and how a phase
// over them is divided among the compute threads of all workers.

#ifndef OARLOCK_WORKER_INPUT_TRAINING_DATA_H_
#define OARLOCK_WORKER_INPUT_TRAINING_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "data/data_options.h"
#include "data/order/example_order.h"
#include "data/order/memory_dataset.h"
#include "data/order/position_runs.h"
#include "data/order/source_index.h"
#include "proto/config/job_config.pb.h"
#include "worker/input/columnar_data.h"
#include "worker/input/columnar_phases.h"
#include "worker/input/epoch_ranges.h"
#include "worker/input/leased_ranges.h"
#include "worker/report/progress_meter.h"

namespace oarlock::worker {

// One thread at a time.
class TrainingData {
 public:
  enum class Division {
    // As --split and --mode say.
    kConfigured,
    // Always leased from the coordinator, as an evaluation is.
    kLeased,
  };

  // What does not end a phase, but is left out of it, and logged.
  enum class SkipPolicy {
    kNothing,
    // A file that is not there or is damaged, from where it is.
    kUnreadable,
    // And any number of malformed lines, which are counted.
    kUnreadableAndMalformed,
  };

  // Whether every worker has a share of its own, decided beforehand; else
  // ranges are leased.
  static bool HasStaticSplit(const v1::JobConfig& config);
  // InvalidArgument when options of the data contradict each other.
  static absl::Status CheckConfig(const v1::JobConfig& config);

  // Learns where the examples of the files lie, where that can be known and
  // this worker needs it. No patterns: empty. NotFound when one matches
  // nothing, unless what is unreadable is left out: then they are names of
  // files. `config`, `job` and `clock` outlive this.
  static absl::StatusOr<std::unique_ptr<TrainingData>> Open(
      const v1::JobConfig& config, const std::vector<std::string>& patterns,
      Division division, client::JobClient* job, const Clock& clock,
      SkipPolicy skip_policy = SkipPolicy::kNothing);

  // Opens every file that can be read twice, and reads its first lines as
  // batches would: their errors, long before its turn.
  absl::Status CheckFirstLines() const;

  // Lines of all files, about: counted where they were, else by the length of
  // the first ones. 0: that cannot be told of packed files and commands.
  uint64_t EstimateExamples() const;

  bool empty() const { return files_.empty(); }
  const std::vector<std::string>& files() const { return files_; }
  // How its files are to be read.
  data::DataOptions data_options() const;
  // The whole of it, for a phase that this worker runs alone; known where its
  // ranges are defined.
  std::vector<data::DataRange> items() const {
    if (columnar_ != nullptr) return columnar_->source().units;
    return index_.has_value() ? index_->Items()
                              : std::vector<data::DataRange>();
  }

  // What reads these; null: a BatchReader does.
  EpochRanges::NewReader new_reader() const {
    return columnar_phases_ == nullptr ? nullptr
                                       : columnar_phases_->new_reader();
  }

  // The ranges of a phase. Leased: worker 0 defines them, all meet.
  // `run_completion` as LeasedRanges has it; nobody leases static ranges, which
  // have none. In memory: waits until the worker's share is loaded, and begins
  // to load that of the next epoch. The data outlives the result.
  absl::StatusOr<std::unique_ptr<EpochRanges>> StartPhase(
      const PhaseId& phase, LeasedRanges::RunCompletion run_completion);

  // With --dataset memory, FailedPrecondition else. What epochs do by
  // themselves, for programs that want to say when:
  //
  // Loads this worker's share of epoch `epoch` now, or beside what is going on;
  // nothing where it is loaded. ResourceExhausted names the limit.
  absl::Status LoadIntoMemory(uint32_t epoch);
  absl::Status PreloadIntoMemory(uint32_t epoch);
  // Returns when that is over; its outcome.
  absl::Status WaitPreload();
  // Epochs that begin from now on are shuffled in this way; every worker has to
  // say the same. Nobody waits for another. What is loaded, or being so, stays
  // where this worker's examples are the same as before: the rule is the one of
  // before, neither of the two is kGlobal, or there is one worker. Else it is
  // dropped, and the share of the same epoch begins to be read.
  // InvalidArgument, as of CheckConfig, when --shuffle could not say it.
  absl::Status SetShuffle(data::ShuffleRule rule);
  // Forgets what is loaded, until the next epoch, and breaks loading off.
  absl::Status ReleaseMemory();
  // What the examples in memory take; 0 with --dataset queue.
  uint64_t memory_bytes() const {
    if (columnar_phases_ != nullptr) return columnar_phases_->memory_bytes();
    return memory_ == nullptr ? 0 : memory_->bytes();
  }

 private:
  // The positions of an epoch that are this worker's, and the order of them.
  struct StaticShare {
    std::shared_ptr<const data::ExampleOrder> order;
    std::shared_ptr<const data::PositionRuns> positions;
    // Of each reader of the job, or of each compute thread where workers have
    // orders of their own.
    std::vector<std::vector<data::PositionRun>> runs;
  };

  TrainingData(const v1::JobConfig& config, Division division,
               client::JobClient* job, const Clock& clock,
               SkipPolicy skip_policy);

  absl::Status FindFiles(const std::vector<std::string>& patterns);
  absl::Status ReadIndex();
  // The same of columnar files.
  absl::Status ListColumnar(const std::vector<std::string>& patterns);
  bool InMemory() const { return config_.dataset() == "memory"; }
  bool HasOwnOrder() const { return config_.sampling() == "with_replacement"; }
  // Every worker computes its own share.
  bool IsStatic() const;
  // Epochs have positions of their own, which are not lines of the files.
  bool IsOrdered() const;
  data::OrderOptions OrderOf(uint32_t epoch) const;
  // What decides which example stands at a position, as DefinePhaseRequest has
  // it.
  std::string OrderText() const;
  StaticShare ShareOf(uint32_t epoch) const;
  data::MemoryDataset::Share MemoryShareOf(uint32_t epoch,
                                           const StaticShare& share) const;
  data::MemoryDataset::Share MemoryShareOf(uint32_t epoch) const {
    return MemoryShareOf(epoch, ShareOf(epoch));
  }
  absl::Status CheckInMemory() const;

  absl::StatusOr<std::unique_ptr<EpochRanges>> StartLeased(
      const PhaseId& phase, LeasedRanges::RunCompletion run_completion) const;
  absl::StatusOr<std::unique_ptr<EpochRanges>> StartInterleaved(
      const PhaseId& phase) const;
  absl::StatusOr<std::unique_ptr<EpochRanges>> StartStatic(
      const PhaseId& phase);

  const v1::JobConfig& config_;
  const Division division_;
  client::JobClient* const job_;
  const Clock& clock_;
  const SkipPolicy skip_policy_;
  std::vector<std::string> files_;
  // Not there where another worker hands out the ranges.
  std::optional<data::SourceIndex> index_;
  // Null: the files are text.
  std::unique_ptr<ColumnarData> columnar_;
  std::unique_ptr<ColumnarPhases> columnar_phases_;
  data::ShuffleRule shuffle_ = data::ShuffleRule::kNone;
  // Null: --dataset queue.
  std::unique_ptr<data::MemoryDataset> memory_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_INPUT_TRAINING_DATA_H_
