// The pushes that each server has acknowledged, by cut: they say what a server
// has lost that came back without its log, or without the end of it.

#ifndef OARLOCK_CLIENT_ACKNOWLEDGED_PUSHES_H_
#define OARLOCK_CLIENT_ACKNOWLEDGED_PUSHES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/interval_set.h"
#include "base/types.h"

namespace oarlock::client {

// Thread-safe.
class AcknowledgedPushes {
 public:
  // Cuts that are counted apart. Servers come back from the newest checkpoint,
  // so older counts matter only after this many cuts in a row have failed. Then
  // they count with the oldest cut that is kept.
  static constexpr size_t kMaxCuts = 16;
  // Of so many newest pushes of a server it is known how many messages they
  // had.
  static constexpr size_t kRecent = 256;

  // Messages of a push, by its sequence.
  using Messages = std::map<uint64_t, uint32_t>;

  explicit AcknowledgedPushes(size_t num_servers) : servers_(num_servers) {}

  // The server acknowledged its messages of push `sequence`, so many, which
  // carried `cut`.
  void Add(ServerIndex server, uint64_t cut, uint64_t sequence,
           uint32_t num_messages) {
    absl::MutexLock lock(&mutex_);
    auto& [pushes, recent] = servers_[server.value()];
    recent[sequence] = num_messages;
    if (recent.size() > kRecent) recent.erase(recent.begin());
    pushes[cut].Add(sequence, sequence + 1);
    if (pushes.size() <= kMaxCuts) return;
    const IntervalSet oldest = std::move(pushes.begin()->second);
    pushes.erase(pushes.begin());
    for (const auto& [begin, end] : oldest.intervals()) {
      pushes.begin()->second.Add(begin, end);
    }
  }

  // Number of pushes that do not belong before `cut`.
  uint64_t CountFrom(ServerIndex server, uint64_t cut) const {
    return CountLost(server, cut, {});
  }
  // Those of them that the server lacks, as a whole or a message of them. It
  // has `replayed`, and all pushes before the first of these.
  uint64_t CountLost(ServerIndex server, uint64_t cut,
                     const Messages& replayed) const {
    absl::MutexLock lock(&mutex_);
    const auto& [pushes, recent] = servers_[server.value()];
    const uint64_t first = replayed.empty() ? 0 : replayed.begin()->first;
    const uint64_t newest = replayed.empty() ? 0 : replayed.rbegin()->first;
    uint64_t count = 0;
    for (auto it = pushes.lower_bound(cut); it != pushes.end(); ++it) {
      for (const auto& [begin, end] : it->second.intervals()) {
        count += end - std::clamp(newest + 1, begin, end);
        for (uint64_t sequence = std::max(begin, first);
             sequence < std::min(end, newest + 1); ++sequence) {
          const auto had = recent.find(sequence);
          const auto has = replayed.find(sequence);
          count += has == replayed.end() ||
                   (had != recent.end() && has->second < had->second);
        }
      }
    }
    return count;
  }
  // Forgets these pushes: they are lost, and that is accepted.
  void ForgetFrom(ServerIndex server, uint64_t cut) {
    absl::MutexLock lock(&mutex_);
    auto& pushes = servers_[server.value()].by_cut;
    pushes.erase(pushes.lower_bound(cut), pushes.end());
  }

 private:
  struct Server {
    // Sequences.
    std::map<uint64_t, IntervalSet> by_cut;
    Messages recent;
  };

  mutable absl::Mutex mutex_;
  std::vector<Server> servers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_ACKNOWLEDGED_PUSHES_H_
