// How far the job is: the workers' reports, added up per phase.

#ifndef OARLOCK_COORDINATOR_JOB_PROGRESS_H_
#define OARLOCK_COORDINATOR_JOB_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/auc.h"
#include "base/types.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/coordinator_progress.pb.h"

namespace oarlock::coordinator {

// Not thread-safe: the coordinator guards it.
//
// Only the newest phases are kept. The older phases of each kind are folded
// into one sum, which is reported as the newest of them. So sums over all that
// is reported never fall, however long a job runs. Of the kept phases only the
// newest keep their histogram: 256 KiB each, and as much again for each worker
// with open reports. The AUC of an older phase no longer changes.
//
// A report is open if other workers get its leases when the worker dies. It
// counts at once, but is dropped with the worker, unless it was kept before.
class JobProgress {
 public:
  static constexpr size_t kMaxPhases = 4096;
  // Kinds of which older phases are summed up.
  static constexpr size_t kMaxFoldedNames = 64;
  static constexpr size_t kMaxHistograms = 16;
  static constexpr int kMaxStages = 32;
  static constexpr int kMaxStalenessBuckets = 64;
  static constexpr size_t kMaxNameBytes = 64;

  // "train/0".
  static std::string NameOf(const v1::PhaseProgress& progress);

  // The phase `name` ("train/0") has this many examples (0: not known).
  void SetNumExamples(const std::string& name, uint64_t num_examples);
  // A worker begins to work on the phase; the first call counts.
  void RecordStart(const std::string& name, absl::Time now);

  // InvalidArgument for a report that Add could not take as a whole.
  static absl::Status Validate(const v1::PhaseProgress& progress);
  // REQUIRES: Validate(progress) is OK.
  void Add(const v1::PhaseProgress& progress, absl::Time now);
  // The same, but the report is open for the worker.
  void AddOpen(WorkerIndex worker, const v1::PhaseProgress& progress,
               absl::Time now);
  // Keeps what is open for the worker, of the phase `name` or of all.
  void Keep(WorkerIndex worker, const std::string& name);
  void KeepAll(WorkerIndex worker);
  // Drops what is open for the worker.
  void Withdraw(WorkerIndex worker);

  // Whether this many examples are the whole phase, except its malformed lines.
  // False while the phase's number of examples is not known.
  bool IsWhole(const std::string& name, uint64_t num_examples) const;

  // All phases that were begun, in the order in which they appeared, after the
  // sums of older ones.
  void Describe(
      bool with_histograms,
      google::protobuf::RepeatedPtrField<v1::PhaseStatus>* phases) const;

  // All phases, oldest first, with their histograms, after the sums of older
  // ones.
  void Save(google::protobuf::RepeatedPtrField<v1::PhaseState>* state) const;
  // Replaces what is there.
  void Load(const google::protobuf::RepeatedPtrField<v1::PhaseState>& state);

 private:
  struct Sum {
    // The sum of the reports, without the histogram.
    v1::PhaseProgress progress;
    // Null before the first report with a histogram and once it is dropped.
    std::unique_ptr<AucHistogram> histogram;
  };
  struct Phase {
    std::string name;
    // Of reports that are not open.
    Sum sum;
    // Of open reports, by worker.
    std::map<uint32_t, Sum> open;
    uint64_t num_examples = 0;
    bool histogram_dropped = false;
    double last_auc = 0;  // valid once dropped
    absl::Time first = absl::InfiniteFuture();
    absl::Time last = absl::InfinitePast();

    bool HasHistogram() const;
    // Of all reports, open or not.
    AucHistogram Histogram() const;
    void Keep(uint32_t worker);
  };

  // The phase of that name ("kind/epoch"); it is created if there is none.
  Phase& Find(const std::string& name);
  // Adds the oldest phase to the sum of the older ones of its kind.
  void FoldOldest();
  static void Describe(
      const Phase& phase, bool with_histograms,
      google::protobuf::RepeatedPtrField<v1::PhaseStatus>* phases);
  static void Save(const Phase& phase, v1::PhaseState* saved);
  // Records a report at this time; returns the phase that it is about.
  Phase& RecordReport(const v1::PhaseProgress& progress, absl::Time now);
  // REQUIRES: `sum` belongs to `phase`.
  void AddTo(const v1::PhaseProgress& progress, Phase* phase, Sum* sum);
  void DropOldHistograms();
  static void CopyHistogram(const AucHistogram& from, v1::PhaseProgress* to);
  // Returns whether there is a histogram.
  static bool SaveSum(const Sum& sum, v1::PhaseProgress* saved);
  static Sum LoadSum(const v1::PhaseProgress& saved, bool has_histogram);

  std::deque<std::unique_ptr<Phase>> phases_;  // oldest first
  std::map<std::string, Phase*> by_name_;
  // By kind: the sum of the phases that are older than those.
  std::map<std::string, Phase> folded_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_JOB_PROGRESS_H_
