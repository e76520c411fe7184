// Which keys of a table were pushed last, and by which worker. A geo worker has
// to pull those again that others have changed.

#ifndef OARLOCK_PSERVER_AGGREGATOR_CHANGE_LOG_H_
#define OARLOCK_PSERVER_AGGREGATOR_CHANGE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/types.h"

namespace oarlock::pserver {

// Thread-safe.
//
// A ring of (key, worker) in the order of the pushes. A position is a number of
// entries: all that were added before it. A key is added after its row has
// changed. So a caller that reads the log up to a position and then pulls sees
// every change before that position.
//
// Memory: 12 bytes for each of the `capacity` newest entries, allocated as they
// come. Time of List: linear in the entries since the caller's position, with
// the lock held for at most kMaxEntriesPerResponse of them.
class ChangeLog {
 public:
  // 12 MiB a table and server.
  static constexpr size_t kDefaultCapacity = size_t{1} << 20;
  static constexpr size_t kMaxEntriesPerResponse = size_t{1} << 17;

  // `capacity` at least 1.
  explicit ChangeLog(size_t capacity = kDefaultCapacity);

  // The rows of these keys have changed.
  void Add(WorkerIndex worker, absl::Span<const Key> keys);

  struct Changes {
    // Ascending, each once.
    std::vector<Key> keys;
    // This response or earlier ones list what was changed before this position.
    uint64_t position = 0;
    // There is more from `position` on.
    bool more = false;
    // Entries since the caller's position are gone, or the position is not one
    // of this log. Then there are no keys, and `position` is the newest.
    bool forgotten = false;
  };
  // What other workers than `worker` have changed since `position`: at most
  // `max_keys` keys, and at least 1 if there are any.
  Changes List(WorkerIndex worker, uint64_t position, size_t max_keys) const;

  // The newest position.
  uint64_t position() const;

 private:
  struct Entry {
    // Two halves, so that an entry is 12 bytes.
    uint32_t key_low;
    uint32_t key_high;
    uint32_t worker;
  };

  const size_t capacity_;
  mutable absl::Mutex mutex_;
  // Entry number p is stored at p % capacity_.
  std::vector<Entry> ring_ ABSL_GUARDED_BY(mutex_);
  uint64_t position_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_CHANGE_LOG_H_
