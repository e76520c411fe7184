// A worker's copy of the dense parameters, kept up to date in the background.

#ifndef OARLOCK_WORKER_MODE_DENSE_PARAMETERS_H_
#define OARLOCK_WORKER_MODE_DENSE_PARAMETERS_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/types.h"
#include "worker/client/parameter_client.h"

namespace oarlock {

// Thread-safe. Readers hold a replica for as long as they compute with it; a
// pull fills another one and puts it in place, so nobody waits for a copy.
class DenseParameters {
 public:
  // `client` outlives this. A table of id 0 means that the model has no dense
  // parameters: pulls do nothing.
  DenseParameters(ParameterClient* client, TableId table)
      : client_(client), table_(table) {}
  // Waits for the pull under way.
  ~DenseParameters();

  // The newest replica. REQUIRES: a Pull() has succeeded.
  std::shared_ptr<const DenseReplica> Current() const;

  // Starts a pull; when one is under way already, another one follows it, so
  // that what was pushed before this call is seen.
  void StartPull();
  // Waits until no pull is under way; the last one's status.
  absl::Status WaitForPull();
  // Both.
  absl::Status Pull();

 private:
  // Starts pulling into a replica that nobody reads.
  void PullInto(std::shared_ptr<DenseReplica> replica);
  std::shared_ptr<DenseReplica> Spare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnPulled(std::shared_ptr<DenseReplica> replica, absl::Status status);

  ParameterClient* const client_;
  const TableId table_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<DenseReplica> current_ ABSL_GUARDED_BY(mutex_);
  // All replicas; one that only this list refers to is spare.
  std::vector<std::shared_ptr<DenseReplica>> replicas_ ABSL_GUARDED_BY(mutex_);
  bool pulling_ ABSL_GUARDED_BY(mutex_) = false;
  bool pull_again_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_MODE_DENSE_PARAMETERS_H_
