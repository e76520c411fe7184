// How far the job is: the workers' reports, added up per pass over the data.

#ifndef OARLOCK_PSERVER_PROGRESS_BOARD_H_
#define OARLOCK_PSERVER_PROGRESS_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/auc.h"
#include "proto/admin.pb.h"
#include "proto/coordinator_state.pb.h"

namespace oarlock {

// Not thread-safe: the coordinator guards it.
//
// The newest phases only are kept, and of those only the newest keep their
// histogram (256 KiB each); the AUC of an older one stands still.
class ProgressBoard {
 public:
  static constexpr size_t kMaxPhases = 4096;
  static constexpr size_t kMaxHistograms = 16;
  static constexpr int kMaxStages = 32;
  static constexpr int kMaxStalenessBuckets = 64;
  static constexpr size_t kMaxNameBytes = 64;

  // The pass `name` ("train/0") has this many examples (0: not known).
  void SetNumExamples(const std::string& name, uint64_t num_examples);
  // Somebody begins to work on the pass; the first call counts.
  void NoteStart(const std::string& name, absl::Time now);

  // InvalidArgument for a report that Add could not take as a whole.
  static absl::Status Validate(const v1::PhaseProgress& progress);
  // REQUIRES: Validate(progress) is OK.
  void Add(const v1::PhaseProgress& progress, absl::Time now);

  // All phases that somebody began, in the order in which they appeared.
  void Describe(
      bool with_histograms,
      google::protobuf::RepeatedPtrField<v1::PhaseStatus>* phases) const;

  // All phases, oldest first, with their histograms.
  void Save(google::protobuf::RepeatedPtrField<v1::PhaseState>* state) const;
  // Takes the place of what is there.
  void Load(const google::protobuf::RepeatedPtrField<v1::PhaseState>& state);

 private:
  struct Phase {
    std::string name;
    // Sums of the reports, without the histogram.
    v1::PhaseProgress sum;
    uint64_t num_examples = 0;
    // Null before the first report with a histogram and once it is dropped.
    std::unique_ptr<AucHistogram> histogram;
    bool histogram_dropped = false;
    double last_auc = 0;  // valid once dropped
    absl::Time first = absl::InfiniteFuture();
    absl::Time last = absl::InfinitePast();
  };

  // The phase of that name ("phase/epoch"), made if there is none.
  Phase& Find(const std::string& name);
  void AddHistogram(const v1::PhaseProgress& progress, Phase* phase);
  static void CopyHistogram(const AucHistogram& from, v1::PhaseProgress* to);

  std::deque<std::unique_ptr<Phase>> phases_;  // oldest first
  std::map<std::string, Phase*> by_name_;
};

}  // namespace oarlock

#endif  // OARLOCK_PSERVER_PROGRESS_BOARD_H_
