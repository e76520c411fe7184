// The dense slots of an asynchronous pass: how they begin, and how what they
// hold is pushed when no step comes to take it along.

#ifndef OARLOCK_WORKER_EPOCH_PASS_SLOTS_H_
#define OARLOCK_WORKER_EPOCH_PASS_SLOTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/parameter_client.h"
#include "worker/dense/dense_slot.h"
#include "worker/epoch/pass_context.h"

namespace oarlock::worker {

// `num_slots` of them, with the parameters as they are now. A step of a slot
// has `step_examples`. Errors are those of the pull.
absl::StatusOr<std::vector<std::unique_ptr<DenseSlot>>> MakeSlots(
    const PassContext& context, int num_slots, int64_t step_examples);

// Pushes the gradients of the slot's steps whose interval is not full, if there
// are any, under `cut`; calls `done` once. Returns without waiting.
void FlushSlot(const PassContext& context, DenseSlot* slot, uint64_t cut,
               client::ParameterClient::Done done);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_PASS_SLOTS_H_
