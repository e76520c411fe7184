// Which coordinator a server obeys. A coordinator that another one has replaced
// has a lower term, and its orders are refused.

#ifndef OARLOCK_PSERVER_FENCING_COORDINATOR_TERM_H_
#define OARLOCK_PSERVER_FENCING_COORDINATOR_TERM_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace oarlock::pserver {

// Thread-safe.
class CoordinatorTerm {
 public:
  // The highest term that was observed; 0: none.
  uint64_t highest() const { return highest_.load(); }

  void Observe(uint64_t term) {
    uint64_t highest = highest_.load();
    while (term > highest && !highest_.compare_exchange_weak(highest, term)) {
    }
  }

  // FailedPrecondition when `term`, of an order, is below the highest.
  absl::Status Check(uint64_t term) const {
    const uint64_t highest = highest_.load();
    if (term >= highest) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "an order of the coordinator's term ", term,
        ", but this server has seen term ", highest,
        ": another coordinator has taken over; end the one that sent it"));
  }

 private:
  std::atomic<uint64_t> highest_{0};
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_COORDINATOR_TERM_H_
