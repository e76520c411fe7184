#include "tests/fleet/data_parallel/worker_threads.h"

#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "tests/collective/group_testing.h"

namespace oarlock {

std::vector<cluster::RoleAssignment> CollectiveRoles(uint32_t size) {
  std::vector<cluster::RoleAssignment> roles(size);
  if (size == 1) return roles;
  const std::vector<std::string> endpoints = collective::FreeEndpoints(size);
  for (uint32_t rank = 0; rank < size; ++rank) {
    roles[rank].role = cluster::Role::kCollective;
    roles[rank].worker_index = rank;
    roles[rank].num_workers = size;
    roles[rank].worker_endpoints = endpoints;
  }
  return roles;
}

std::vector<absl::Status> RunWorkers(
    size_t num_workers,
    const std::function<absl::StatusOr<std::unique_ptr<WorkerGroup>>(size_t)>&
        join,
    const std::function<absl::Status(WorkerGroup&, size_t)>& train) {
  std::vector<absl::Status> statuses(num_workers);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < num_workers; ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = [&]() -> absl::Status {
        OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerGroup> group,
                                 join(i));
        const absl::Status trained = train(*group, i);
        const absl::Status left = group->Leave(trained);
        return trained.ok() ? left : trained;
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

absl::StatusOr<ImageShard> DrawImages(const WorkerGroup& group,
                                      const data::ImageShape& shape,
                                      uint32_t batch_size, uint64_t num_steps,
                                      uint64_t seed) {
  data::SyntheticImagesOptions drawn;
  drawn.shape = shape;
  drawn.num_examples = batch_size * num_steps * group.size();
  drawn.seed = seed;
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<data::MemoryImages> images,
                           data::NewSyntheticImages(drawn));
  OARLOCK_ASSIGN_OR_RETURN(
      data::DistributedBatchSampler sampler,
      data::DistributedBatchSampler::Create({.num_examples = images->size(),
                                             .batch_size = batch_size,
                                             .rank = group.rank(),
                                             .size = group.size(),
                                             .shuffle = true,
                                             .seed = seed}));
  return ImageShard{std::move(images), std::move(sampler)};
}

}  // namespace oarlock
