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
// The newest phases only are kept; of older ones, by the name before the epoch,
// the sum, told as the newest of them: so sums over all that is told never fall
// back, however long a job runs. Of those that are kept only the newest keep
// their histogram (256 KiB each, and as much for each worker with something
// open); the AUC of an older one stands still.
//
// What a worker reports of leases that others are given when it dies is open:
// it counts at once, but goes with the worker, unless it was kept before.
class JobProgress {
 public:
  static constexpr size_t kMaxPhases = 4096;
  // Names before the epoch of which older phases are summed up.
  static constexpr size_t kMaxFoldedNames = 64;
  static constexpr size_t kMaxHistograms = 16;
  static constexpr int kMaxStages = 32;
  static constexpr int kMaxStalenessBuckets = 64;
  static constexpr size_t kMaxNameBytes = 64;

  // "train/0".
  static std::string NameOf(const v1::PhaseProgress& progress);

  // The phase `name` ("train/0") has this many examples (0: not known).
  void SetNumExamples(const std::string& name, uint64_t num_examples);
  // Somebody begins to work on the phase; the first call counts.
  void RecordStart(const std::string& name, absl::Time now);

  // InvalidArgument for a report that Add could not take as a whole.
  static absl::Status Validate(const v1::PhaseProgress& progress);
  // REQUIRES: Validate(progress) is OK.
  void Add(const v1::PhaseProgress& progress, absl::Time now);
  // The same; it is open for the worker.
  void AddOpen(WorkerIndex worker, const v1::PhaseProgress& progress,
               absl::Time now);
  // What is open for the worker, of the phase `name` or of all, is kept.
  void Keep(WorkerIndex worker, const std::string& name);
  void KeepAll(WorkerIndex worker);
  // What is open for the worker counts no more.
  void Withdraw(WorkerIndex worker);

  // Whether so many examples of the phase are all of it, but for its malformed
  // lines. No while its number of examples is not known.
  bool IsWhole(const std::string& name, uint64_t num_examples) const;

  // All phases that somebody began, in the order in which they appeared, after
  // the sums of older ones.
  void Describe(
      bool with_histograms,
      google::protobuf::RepeatedPtrField<v1::PhaseStatus>* phases) const;

  // All phases, oldest first, with their histograms, after the sums of older
  // ones.
  void Save(google::protobuf::RepeatedPtrField<v1::PhaseState>* state) const;
  // Takes the place of what is there.
  void Load(const google::protobuf::RepeatedPtrField<v1::PhaseState>& state);

 private:
  struct Sum {
    // Of the reports, without the histogram.
    v1::PhaseProgress progress;
    // Null before the first report with a histogram and once it is dropped.
    std::unique_ptr<AucHistogram> histogram;
  };
  struct Phase {
    std::string name;
    // Of what is not open.
    Sum sum;
    // By worker.
    std::map<uint32_t, Sum> open;
    uint64_t num_examples = 0;
    bool histogram_dropped = false;
    double last_auc = 0;  // valid once dropped
    absl::Time first = absl::InfiniteFuture();
    absl::Time last = absl::InfinitePast();

    bool HasHistogram() const;
    // Of all that counts.
    AucHistogram Histogram() const;
    void Keep(uint32_t worker);
  };

  // The phase of that name ("phase/epoch"), made if there is none.
  Phase& Find(const std::string& name);
  // The oldest phase joins the sum of those before it.
  void FoldOldest();
  static void Describe(
      const Phase& phase, bool with_histograms,
      google::protobuf::RepeatedPtrField<v1::PhaseStatus>* phases);
  static void Save(const Phase& phase, v1::PhaseState* saved);
  // The phase that is reported of, at this time.
  Phase& RecordReport(const v1::PhaseProgress& progress, absl::Time now);
  // `sum` is the phase's.
  void AddTo(const v1::PhaseProgress& progress, Phase* phase, Sum* sum);
  void DropOldHistograms();
  static void CopyHistogram(const AucHistogram& from, v1::PhaseProgress* to);
  // True when there is a histogram.
  static bool SaveSum(const Sum& sum, v1::PhaseProgress* saved);
  static Sum LoadSum(const v1::PhaseProgress& saved, bool has_histogram);

  std::deque<std::unique_ptr<Phase>> phases_;  // oldest first
  std::map<std::string, Phase*> by_name_;
  // By the name before the epoch: phases older than those.
  std::map<std::string, Phase> folded_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_JOB_PROGRESS_H_
