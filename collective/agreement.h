// What ranks tell one another before they do something together.

#ifndef OARLOCK_COLLECTIVE_AGREEMENT_H_
#define OARLOCK_COLLECTIVE_AGREEMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collective/communicator.h"

namespace oarlock::collective {

// `mine` of every rank, in order of ranks. All ranks call it; the error is the
// group's.
absl::StatusOr<std::vector<std::string>> AllGatherText(
    Communicator& communicator, absl::string_view mine);

// OK where all ranks can do what comes next, so that nobody waits for one who
// cannot. Otherwise an error on every rank: `mine` where it is one, else
// FailedPrecondition with the first rank that has one, and its words. All ranks
// call it.
absl::Status CheckAllCan(Communicator& communicator, const absl::Status& mine);

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_AGREEMENT_H_
