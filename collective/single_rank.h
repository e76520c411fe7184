// The communicator of a run alone: no network, no threads.

#ifndef OARLOCK_COLLECTIVE_SINGLE_RANK_H_
#define OARLOCK_COLLECTIVE_SINGLE_RANK_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collective/communicator.h"

namespace oarlock::collective {

class SingleRank : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  absl::Status Barrier() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Fork() override {
    return std::make_unique<SingleRank>();
  }
  absl::Status Leave() override { return absl::OkStatus(); }
  absl::Status GroupStatus() const override { return absl::OkStatus(); }

 protected:
  absl::Status AllReduce(void* values, size_t num_values,
                         Element element) override {
    return absl::OkStatus();
  }
  absl::Status BroadcastBytes(void* bytes, size_t num_bytes, int root) override;
  absl::Status AllGatherBytes(const void* mine, size_t mine_bytes, void* all,
                              size_t all_bytes) override;
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_SINGLE_RANK_H_
