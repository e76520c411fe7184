// A process that kills process groups when the process that started it is gone,
// whatever that died of: it holds one end of a socket whose other end closes
// then.

#ifndef OARLOCK_LAUNCH_GUARDIAN_H_
#define OARLOCK_LAUNCH_GUARDIAN_H_

#include <sys/types.h>

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

namespace oarlock::launch {

// Not thread-safe.
class Guardian {
 public:
  // `max_groups` may be guarded at one time.
  static absl::StatusOr<std::unique_ptr<Guardian>> Start(int max_groups);
  // Kills every group that is still guarded, and waits for that.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // A child leads the group `group`, and has called TellFromChild.
  void Add(pid_t group) { groups_.insert(group); }
  // Async-signal-safe: for a child, before it runs its program.
  void TellFromChild(pid_t group) const;
  // REQUIRES: the group's leader is not yet waited for, so that its number
  // cannot be another's.
  void Forget(pid_t group);

  // Starts another process in the place of one that has died, which guards the
  // same groups. Whether that was so.
  absl::StatusOr<bool> Renew();

  pid_t pid() const { return pid_; }

 private:
  explicit Guardian(int max_groups) : max_groups_(max_groups) {}
  absl::Status Fork();

  const int max_groups_;
  pid_t pid_ = -1;
  int socket_ = -1;
  absl::flat_hash_set<pid_t> groups_;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_GUARDIAN_H_
