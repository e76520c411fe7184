// Whether somebody else's launcher has started this process beside others.

#ifndef OARLOCK_CLUSTER_ALONE_CHECK_H_
#define OARLOCK_CLUSTER_ALONE_CHECK_H_

#include "absl/status/status.h"
#include "cluster/environment.h"

namespace oarlock::cluster {

// For a process without a role. InvalidArgument, with variable and value, where
// a variable of another launcher (Slurm's, MPI's, PyTorch's, MXNet's,
// TensorFlow's, Paddle's collective one) says that there are several processes:
// each of them would train alone. OK with OARLOCK_ALONE=1.
absl::Status CheckAlone(const EnvironmentMap& environment);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_ALONE_CHECK_H_
