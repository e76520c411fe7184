// A worker's newest copy of the dense parameters.

#ifndef OARLOCK_WORKER_DENSE_DENSE_PARAMETERS_H_
#define OARLOCK_WORKER_DENSE_DENSE_PARAMETERS_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/types.h"
#include "client/parameter_client.h"

namespace oarlock::worker {

// Thread-safe. Readers hold a replica for as long as they compute with it;
// another one is filled meanwhile and put in its place, so nobody waits for a
// copy.
class DenseParameters {
 public:
  // `client` outlives this. A table of id 0 means that the model has no dense
  // parameters: pulls do nothing.
  DenseParameters(client::ParameterClient* client, TableId table)
      : client_(client), table_(table) {}

  // The newest replica. REQUIRES: a Pull() or Install() came before.
  std::shared_ptr<const client::DenseReplica> Current() const;

  // Pulls and installs. A failure keeps the last replica.
  absl::Status Pull();

  // A replica that nobody reads, for a push to fill.
  std::shared_ptr<client::DenseReplica> Spare();
  // Makes it the newest.
  void Install(std::shared_ptr<client::DenseReplica> replica);

 private:
  client::ParameterClient* const client_;
  const TableId table_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<client::DenseReplica> current_ ABSL_GUARDED_BY(mutex_);
  // All replicas; one that only this list refers to is spare.
  std::vector<std::shared_ptr<client::DenseReplica>> replicas_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_DENSE_DENSE_PARAMETERS_H_
