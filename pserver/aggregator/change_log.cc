#include "pserver/aggregator/change_log.h"

#include <algorithm>

#include "base/check.h"

namespace oarlock::pserver {

ChangeLog::ChangeLog(size_t capacity) : capacity_(capacity) {
  OARLOCK_CHECK(capacity >= 1);
}

void ChangeLog::Add(WorkerIndex worker, absl::Span<const Key> keys) {
  absl::MutexLock lock(&mutex_);
  for (const Key key : keys) {
    const auto number = static_cast<uint64_t>(key);
    const Entry entry = {static_cast<uint32_t>(number),
                         static_cast<uint32_t>(number >> 32), worker.value()};
    const size_t place = position_++ % capacity_;
    if (place == ring_.size()) {
      ring_.push_back(entry);
    } else {
      ring_[place] = entry;
    }
  }
}

ChangeLog::Changes ChangeLog::List(WorkerIndex worker, uint64_t position,
                                   size_t max_keys) const {
  OARLOCK_CHECK(max_keys >= 1);
  Changes changes;
  {
    absl::MutexLock lock(&mutex_);
    const uint64_t oldest = position_ - ring_.size();
    if (position > position_ || position < oldest) {
      changes.position = position_;
      changes.forgotten = true;
      return changes;
    }
    const uint64_t end =
        std::min<uint64_t>(position_, position + kMaxEntriesPerResponse);
    for (; position < end && changes.keys.size() < max_keys; ++position) {
      const Entry& entry = ring_[position % capacity_];
      if (entry.worker == worker.value()) continue;
      changes.keys.push_back(
          Key{uint64_t{entry.key_high} << 32 | entry.key_low});
    }
    changes.position = position;
    changes.more = position < position_;
  }
  std::sort(changes.keys.begin(), changes.keys.end());
  changes.keys.erase(std::unique(changes.keys.begin(), changes.keys.end()),
                     changes.keys.end());
  return changes;
}

uint64_t ChangeLog::position() const {
  absl::MutexLock lock(&mutex_);
  return position_;
}

}  // namespace oarlock::pserver
