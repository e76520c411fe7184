// Which keys of a sparse table pulls and pushes to this server name most: a
// sample of these keys, counted by Space-Saving.
//
// A message is sampled at every `sample_interval`-th key from a random place
// on. So every key of every message is in the sample with the same chance,
// whatever is next to it. A message costs one random number and a handful of
// counter steps. The keys of messages are counted: a worker names a key once
// per batch, however often its examples do. So no key has a larger share than
// one key of a batch.
//
// The error of an estimate, as a share of all keys, has two parts. What
// Space-Saving may have counted too much is at most 1 / capacity, and certain.
// The chance of the sample adds about 2 sqrt(share / samples) at 95 %. See
// docs/design/0007-hot-keys.md.

#ifndef OARLOCK_PSERVER_TABLE_HOT_KEYS_H_
#define OARLOCK_PSERVER_TABLE_HOT_KEYS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "pserver/table/space_saving.h"

namespace oarlock::pserver {

struct HotKeysOptions {
  // One key of this many is sampled; a power of two.
  uint32_t sample_interval = 256;
  // Counters for pulls and as many for pushes. 1 to 2^30.
  uint32_t capacity = 8192;
  uint64_t seed = 0;
};

// A share of all keys, and how far the true one may be away: with a chance of
// about 95 %, and for certain where every key is sampled.
struct ShareEstimate {
  double share = 0;
  double error = 0;
};

// One stream of keys. Thread-safe. Add never waits: while another thread counts
// or reads, a message is left out of the sample.
class KeySampler {
 public:
  explicit KeySampler(const HotKeysOptions& options);

  // A message named these keys.
  void Add(absl::Span<const Key> keys);

  // Keys of all messages.
  uint64_t num_keys() const {
    return num_keys_.load(std::memory_order_relaxed);
  }
  // Those of them that were counted.
  uint64_t num_samples() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The keys with the largest counters, at most `n`, descending.
  std::vector<Key> Top(size_t n) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The share of each key; all from one moment.
  std::vector<ShareEstimate> Estimate(absl::Span<const Key> keys) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const uint32_t interval_;
  const uint64_t seed_;
  std::atomic<uint64_t> num_keys_ = 0;
  mutable absl::Mutex mutex_;
  SpaceSaving counts_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe, see KeySampler. A worker pushes what it pulled, in the same
// order. The places of the two samples are independent of each other.
class HotKeys {
 public:
  struct HotKey {
    Key key;
    ShareEstimate pulls;
    ShareEstimate pushes;
  };

  explicit HotKeys(const HotKeysOptions& options);

  KeySampler& pulls() { return pulls_; }
  KeySampler& pushes() { return pushes_; }
  const KeySampler& pulls() const { return pulls_; }
  const KeySampler& pushes() const { return pushes_; }

  // The `n` keys with the largest sum of estimated pulls and pushes,
  // descending. A key without a counter in one of the two has a share of 0
  // there, with its error.
  std::vector<HotKey> Top(size_t n) const;

 private:
  KeySampler pulls_;
  KeySampler pushes_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_TABLE_HOT_KEYS_H_
