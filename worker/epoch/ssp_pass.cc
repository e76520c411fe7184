#include "worker/epoch/ssp_pass.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/wire_version.h"
#include "worker/epoch/pipelined_pass.h"
#include "worker/epoch/step_gate.h"

namespace oarlock::worker {

absl::Status RunSspPass(PassContext context) {
  const int64_t bound = context.config->staleness_bound();
  if (bound < 0) return RunAsyncPass(context);
  StepGate gate(context.job, context.work.size(), static_cast<uint64_t>(bound),
                context.clock());
  OARLOCK_RETURN_IF_ERROR(gate.Join());
  // All workers are members before the first step begins.
  OARLOCK_RETURN_IF_ERROR(context.job->Barrier(
      absl::StrCat(context.work_name, cluster::kMembersBarrier)));
  context.gate = &gate;
  OARLOCK_RETURN_IF_ERROR(RunAsyncPass(context));
  return gate.Leave();
}

}  // namespace oarlock::worker
