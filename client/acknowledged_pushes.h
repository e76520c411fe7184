// Counts the pushes that each server has acknowledged, by cut. The counts say
// what a server has lost that came back without its log.

#ifndef OARLOCK_CLIENT_ACKNOWLEDGED_PUSHES_H_
#define OARLOCK_CLIENT_ACKNOWLEDGED_PUSHES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/types.h"

namespace oarlock::client {

// Thread-safe.
class AcknowledgedPushes {
 public:
  // Cuts that are counted apart. Servers come back from the newest checkpoint,
  // so older counts matter only after this many cuts in a row have failed. Then
  // they count with the oldest cut that is kept.
  static constexpr size_t kMaxCuts = 16;

  explicit AcknowledgedPushes(size_t num_servers) : counts_(num_servers) {}

  // The server acknowledged its messages of a push that carried `cut`.
  void Add(ServerIndex server, uint64_t cut) {
    absl::MutexLock lock(&mutex_);
    std::map<uint64_t, uint64_t>& counts = counts_[server.value()];
    ++counts[cut];
    if (counts.size() <= kMaxCuts) return;
    const uint64_t oldest = counts.begin()->second;
    counts.erase(counts.begin());
    counts.begin()->second += oldest;
  }

  // Number of pushes that do not belong before `cut`.
  uint64_t CountFrom(ServerIndex server, uint64_t cut) const {
    absl::MutexLock lock(&mutex_);
    const std::map<uint64_t, uint64_t>& counts = counts_[server.value()];
    uint64_t count = 0;
    for (auto it = counts.lower_bound(cut); it != counts.end(); ++it) {
      count += it->second;
    }
    return count;
  }
  // Drops these pushes from the counts: they are lost, and that is accepted.
  void ForgetFrom(ServerIndex server, uint64_t cut) {
    absl::MutexLock lock(&mutex_);
    std::map<uint64_t, uint64_t>& counts = counts_[server.value()];
    counts.erase(counts.lower_bound(cut), counts.end());
  }

 private:
  mutable absl::Mutex mutex_;
  // By server: pushes by their cut.
  std::vector<std::map<uint64_t, uint64_t>> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_ACKNOWLEDGED_PUSHES_H_
