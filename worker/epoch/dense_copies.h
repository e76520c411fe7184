// The dense copies of an asynchronous epoch: how they begin, and how what they
// hold is pushed when no step comes to take it along.

#ifndef OARLOCK_WORKER_EPOCH_DENSE_COPIES_H_
#define OARLOCK_WORKER_EPOCH_DENSE_COPIES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/parameter_client.h"
#include "worker/dense/dense_copy.h"
#include "worker/epoch/epoch_context.h"

namespace oarlock::worker {

// `num_copies` of them, with the parameters as they are now. A step of a copy
// has `step_examples`. Errors are those of the pull.
absl::StatusOr<std::vector<std::unique_ptr<DenseCopy>>> MakeDenseCopies(
    const EpochContext& context, int num_copies, int64_t step_examples);

// Pushes the gradients of the copy's steps whose interval is not full, if there
// are any, under `cut`; calls `done` once. Returns without waiting.
void FlushDenseCopy(const EpochContext& context, DenseCopy* copy, uint64_t cut,
                    client::ParameterClient::Done done);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_DENSE_COPIES_H_
