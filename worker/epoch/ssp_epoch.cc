#include "worker/epoch/ssp_epoch.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/wire_version.h"
#include "worker/epoch/pipelined_epoch.h"
#include "worker/epoch/step_gate.h"

namespace oarlock::worker {

absl::Status RunSspEpoch(EpochContext context) {
  const int64_t bound = context.config->staleness_bound();
  if (bound < 0) return RunAsyncEpoch(context);
  StepGate gate(context.job, context.ranges.size(),
                static_cast<uint64_t>(bound), context.clock());
  OARLOCK_RETURN_IF_ERROR(gate.Join());
  // All workers are members before the first step begins.
  OARLOCK_RETURN_IF_ERROR(context.job->Barrier(
      absl::StrCat(context.phase_name, cluster::kMembersBarrier)));
  context.gate = &gate;
  OARLOCK_RETURN_IF_ERROR(RunAsyncEpoch(context));
  return gate.Leave();
}

}  // namespace oarlock::worker
