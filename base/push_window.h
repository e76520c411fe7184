// Which pushes have been applied: the memory that makes a retried push
// harmless.
//
// For each (worker, generation) a window of 64 sequences: the highest one
// applied, H, and a bit for each of H-63 ... H. A client never sends a sequence
// more than 63 above its oldest unacknowledged one, so everything at or below
// H-64 counts as fully applied. A sequence that is missing from a
// window is no loss: a push need not address every partition.

#ifndef OARLOCK_BASE_PUSH_WINDOW_H_
#define OARLOCK_BASE_PUSH_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/push_stamp.h"
#include "base/types.h"

namespace oarlock {

// A sequence beyond this one is a client's mistake. It would make all later
// ones of its incarnation count as applied.
inline constexpr uint64_t kMaxSequence = uint64_t{1} << 48;

// The applied pushes of one incarnation of one worker, as it travels with a
// partition into checkpoints, logs and migrations.
struct PushWindow {
  WorkerIndex worker;
  Generation generation;
  // The highest sequence applied. At least 1.
  Sequence highest;
  // Bit i: sequence highest - i has been applied. Bit 0 is set.
  uint64_t applied = 0;
};

// The windows of one unit of application: a partition of a sparse table or a
// block of a dense one. Sequences begin at 1. Not thread-safe: guarded by the
// lock of its unit. Costs 32 bytes per worker and generation; finding one is
// a binary search.
class PushWindows {
 public:
  // Sequences that a window tells apart.
  static constexpr uint64_t kWindowSequences = 64;

  // Whether the push has been applied or counts as fully applied. False for a
  // worker generation that has never pushed here.
  bool Contains(const PushStamp& stamp) const {
    const auto window = Find(stamp.worker, stamp.generation);
    if (window == windows_.end() || !Same(*window, stamp)) return false;
    if (stamp.sequence > window->highest) return false;
    const uint64_t age = window->highest.value() - stamp.sequence.value();
    return age >= kWindowSequences || ((window->applied >> age) & 1) != 0;
  }

  // Remembers the push as applied. Adding it again changes nothing.
  void Add(const PushStamp& stamp) {
    OARLOCK_CHECK(stamp.sequence.value() >= 1);
    const auto found = Find(stamp.worker, stamp.generation);
    const auto window = windows_.begin() + (found - windows_.begin());
    if (window == windows_.end() || !Same(*window, stamp)) {
      windows_.insert(window, PushWindow{.worker = stamp.worker,
                                         .generation = stamp.generation,
                                         .highest = stamp.sequence,
                                         .applied = 1});
      return;
    }
    if (stamp.sequence > window->highest) {
      const uint64_t advance = stamp.sequence.value() - window->highest.value();
      window->applied =
          advance >= kWindowSequences ? 0 : window->applied << advance;
      window->applied |= 1;
      window->highest = stamp.sequence;
      return;
    }
    const uint64_t age = window->highest.value() - stamp.sequence.value();
    if (age < kWindowSequences) window->applied |= uint64_t{1} << age;
  }

  // Forgets the windows of `worker` with generations up to `last`; returns
  // whether there was one. The caller sees to it that no such push can arrive
  // any more.
  bool Forget(WorkerIndex worker, Generation last) {
    const auto first = Find(worker, Generation(0));
    auto end = Find(worker, last);
    if (end != windows_.end() && end->worker == worker &&
        end->generation == last) {
      ++end;
    }
    const bool any = first != end;
    windows_.erase(first, end);
    return any;
  }

  // All windows, ascending by (worker, generation).
  absl::Span<const PushWindow> windows() const { return windows_; }

  // Replaces all windows by what `windows()` gave earlier.
  void Restore(absl::Span<const PushWindow> windows) {
    windows_.assign(windows.begin(), windows.end());
  }

  size_t bytes() const { return windows_.capacity() * sizeof(PushWindow); }

 private:
  using Windows = std::vector<PushWindow>;

  static bool Same(const PushWindow& window, const PushStamp& stamp) {
    return window.worker == stamp.worker &&
           window.generation == stamp.generation;
  }

  // The first window at or after (worker, generation).
  Windows::const_iterator Find(WorkerIndex worker,
                               Generation generation) const {
    return std::lower_bound(
        windows_.begin(), windows_.end(), std::pair(worker, generation),
        [](const PushWindow& window, const auto& name) {
          return std::pair(window.worker, window.generation) < name;
        });
  }

  Windows windows_;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_PUSH_WINDOW_H_
