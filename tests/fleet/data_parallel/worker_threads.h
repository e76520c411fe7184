// Workers of a group as threads of a test, and the images that they train on.

#ifndef OARLOCK_TESTS_FLEET_DATA_PARALLEL_WORKER_THREADS_H_
#define OARLOCK_TESTS_FLEET_DATA_PARALLEL_WORKER_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/images/synthetic_images.h"
#include "fleet/data_parallel.h"

namespace oarlock {

// Of the ranks of a group of that size; one alone has none.
std::vector<cluster::RoleAssignment> CollectiveRoles(uint32_t size);

// Runs all workers at once: worker i joins a group by `join`, trains in it, and
// leaves it with what `train` gave. The status of each.
std::vector<absl::Status> RunWorkers(
    size_t num_workers,
    const std::function<absl::StatusOr<std::unique_ptr<WorkerGroup>>(size_t)>&
        join,
    const std::function<absl::Status(WorkerGroup&, size_t)>& train);

// Images, `num_steps` batches for each worker of the group, and this one's.
struct ImageShard {
  std::unique_ptr<data::MemoryImages> images;
  data::DistributedBatchSampler sampler;
};
absl::StatusOr<ImageShard> DrawImages(const WorkerGroup& group,
                                      const data::ImageShape& shape,
                                      uint32_t batch_size, uint64_t num_steps,
                                      uint64_t seed);

}  // namespace oarlock

#endif  // OARLOCK_TESTS_FLEET_DATA_PARALLEL_WORKER_THREADS_H_
