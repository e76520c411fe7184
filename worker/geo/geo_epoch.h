// An epoch in geo mode: a worker trains on its own copy of what it touches and
// exchanges with the servers what has changed, every few steps.

#ifndef OARLOCK_WORKER_GEO_GEO_EPOCH_H_
#define OARLOCK_WORKER_GEO_GEO_EPOCH_H_

#include "absl/status/status.h"
#include "worker/epoch/epoch_context.h"

namespace oarlock::worker {

// Trains context.geo on all examples of context.ranges. An interval is
// `geo_steps` steps; in a step every compute thread computes a batch on the
// same parameters, and their gradients are applied as one, added in the order
// of the compute threads (of a mean loss: averaged). At the beginning of an
// interval the rows that others have changed and those that its batches lack
// are pulled, at its end what it has changed is pushed, as one push with the
// examples of the interval. Returns when the last one is answered.
//
// What a failure leaves unpushed was not told to anybody: its examples are
// trained again by others. The copy is of no use then.
absl::Status RunGeoEpoch(const EpochContext& context);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_GEO_GEO_EPOCH_H_
