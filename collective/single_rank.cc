#include "collective/single_rank.h"

#include <cstring>

#include "base/status_macros.h"
#include "collective/argument_checks.h"

namespace oarlock::collective {

absl::Status SingleRank::BroadcastBytes(void* bytes, size_t num_bytes,
                                        int root) {
  return CheckRoot(root, size());
}

absl::Status SingleRank::AllGatherBytes(const void* mine, size_t mine_bytes,
                                        void* all, size_t all_bytes) {
  OARLOCK_RETURN_IF_ERROR(CheckGatherSizes(mine_bytes, all_bytes, size()));
  if (mine_bytes > 0) std::memmove(all, mine, mine_bytes);
  return absl::OkStatus();
}

}  // namespace oarlock::collective
