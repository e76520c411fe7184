// The examples of a job's files on one worker: where they lie, and how a pass
// over them is divided among the lanes of all workers.

#ifndef OARLOCK_WORKER_TRAINING_DATA_H_
#define OARLOCK_WORKER_TRAINING_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job_config.pb.h"
#include "worker/client/job_client.h"
#include "worker/data/data_options.h"
#include "worker/data/source_index.h"
#include "worker/data/work_source.h"
#include "worker/leased_work.h"

namespace oarlock {

// The data reader's options out of the job's. REQUIRES: a valid config.
DataOptions DataOptionsOf(const v1::JobConfig& config);

// What this worker has to do in one pass. One thread at a time, but for the
// sources, which are thread-safe.
class PassWork {
 public:
  virtual ~PassWork() = default;
  // One for each lane; the same one may stand there several times.
  virtual const std::vector<WorkSource*>& lanes() const = 0;
  // Rounds of the reader that has the most of them, of all workers. Nothing:
  // not known beforehand.
  virtual std::optional<uint64_t> num_rounds() const = 0;
  // To be asked when the lanes' sources are empty and all that was read has
  // been pushed and answered. True: there is more, as when another worker was
  // lost; the lanes have to run once more. False: the pass is over.
  virtual absl::StatusOr<bool> AwaitMore() = 0;
};

// Immutable once opened.
class TrainingData {
 public:
  enum class Division {
    // As --split and --mode say.
    kConfigured,
    // Always leased from the coordinator, as an evaluation is.
    kLeased,
  };

  // Learns where the examples of the files lie, where that can be known and
  // this worker needs it. No patterns: empty. NotFound when one matches
  // nothing; `config` and `job` outlive this.
  static absl::StatusOr<std::unique_ptr<TrainingData>> Open(
      const v1::JobConfig& config, const std::vector<std::string>& patterns,
      Division division, JobClient* job);

  bool empty() const { return files_.empty(); }
  const std::vector<std::string>& files() const { return files_; }
  // The whole of it, for a pass that this worker makes alone; known where its
  // work is defined.
  const std::vector<WorkItem>& items() const { return items_; }

  // The work of pass `work` (PhaseId::Work). Leased: worker 0 defines it, all
  // meet. `repair` as LeasedWork has it; nobody leases static work, which has
  // none. The data outlives the result.
  absl::StatusOr<std::unique_ptr<PassWork>> StartPass(
      const std::string& work, LeasedWork::Repair repair) const;

 private:
  TrainingData(const v1::JobConfig& config, Division division, JobClient* job);

  absl::Status ReadIndex();
  // Every worker computes its own share.
  bool IsStatic() const;
  absl::StatusOr<std::unique_ptr<PassWork>> StartLeased(
      const std::string& work, LeasedWork::Repair repair) const;
  absl::StatusOr<std::unique_ptr<PassWork>> StartStatic(
      const std::string& work) const;

  const v1::JobConfig& config_;
  const Division division_;
  JobClient* const job_;
  std::vector<std::string> files_;
  // Not there when lengths cannot be known without running a command.
  std::optional<SourceIndex> index_;
  std::vector<WorkItem> items_;
  uint64_t num_examples_ = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_TRAINING_DATA_H_
