// The numbers of a job's features.

#ifndef OARLOCK_COORDINATOR_INPUTS_JOB_FEATURES_H_
#define OARLOCK_COORDINATOR_INPUTS_JOB_FEATURES_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/features.pb.h"
#include "proto/v1/job_description.pb.h"

namespace oarlock::coordinator {

// A number is given to one feature and never again, also when that one is gone.
// Features that share rows have the number of the one whose rows they are. Not
// thread-safe.
class JobFeatures {
 public:
  // The list with its numbers: those of before, or, of the first list, new ones
  // in the order of the names, behind all that were ever given. A feature of
  // the parameters that the job began with keeps its number where its rows are
  // the same: type, dim, and whose they are. FailedPrecondition names the first
  // feature that differs from the list of before; InvalidArgument: the list is
  // not sorted, or there are no numbers left.
  absl::StatusOr<v1::FeatureList> Number(const v1::FeatureList& list) const;
  // `numbered` is what Number returned. They are the job's from now on.
  void Set(const v1::FeatureList& numbered);

  bool has_list() const { return features_.has_value(); }
  // REQUIRES: has_list().
  const v1::FeatureList& list() const { return *features_; }

  // The job goes on with the parameters of that description's job: only the
  // same list is legal.
  void Restore(const v1::JobDescription& description);
  // The job begins with them.
  void BeginWith(const v1::JobDescription& description);
  // Fills in the list and the largest number.
  void Describe(v1::JobDescription* description) const;

  void Save(v1::SavedFeatures* state) const;
  void Load(const v1::SavedFeatures& state);

 private:
  std::optional<v1::FeatureList> features_;
  v1::FeatureList loaded_;
  uint32_t largest_number_ = 0;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_INPUTS_JOB_FEATURES_H_
