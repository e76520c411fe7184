// The most frequent keys of a stream in fixed memory: Space-Saving (Metwally,
// Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in
// data streams", 2005).
//
// It keeps `capacity` counters. A key that has a counter is counted there. A
// key without a counter takes over the smallest one with its count. It keeps
// that count as its error: it may have inherited that much from other keys.
// Hence, with n the true number of times a key came and N the length of the
// stream:
//
//   1. count - error <= n <= count for every key that has a counter;
//   2. n <= least_count() for every key that has none;
//   3. least_count() <= N / capacity, so every key with n > N / capacity has a
//      counter, whatever the others do.
//
// Every step costs one look-up in a hash map and a few writes: counters stand
// in the order of their counts, equal ones form a group, and a counter that
// grows by one changes places with the first of its group.

#ifndef OARLOCK_PSERVER_TABLE_SPACE_SAVING_H_
#define OARLOCK_PSERVER_TABLE_SPACE_SAVING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/types.h"

namespace oarlock::pserver {

// Used by one thread at a time.
class SpaceSaving {
 public:
  struct Count {
    Key key;
    // See above.
    uint64_t count = 0;
    uint64_t error = 0;
  };

  // `capacity` in [1, 2^30]. Memory grows with the keys seen, to at most about
  // 90 bytes a counter.
  explicit SpaceSaving(size_t capacity);

  // The key came once more.
  void Add(Key key);

  // Number of calls of Add.
  uint64_t total() const { return total_; }
  // At least the true count of every key without a counter; 0 while counters
  // are free.
  uint64_t least_count() const {
    return order_.size() < capacity_ ? 0 : CountAt(order_.size() - 1);
  }
  // The counter of a key; {key, least_count(), least_count()} for one that has
  // none.
  Count Find(Key key) const;
  // The `n` largest counters, descending.
  std::vector<Count> Top(size_t n) const;

 private:
  struct Counter {
    Key key;
    uint64_t error = 0;
    uint32_t position = 0;  // in order_
    uint32_t group = 0;
  };
  // The counters with one count: a run of order_.
  struct Group {
    uint64_t count = 0;
    uint32_t first = 0;
  };

  uint64_t CountAt(size_t position) const {
    return groups_[counters_[order_[position]].group].count;
  }
  // A counter of its own for the key, with count 0 and after all others.
  uint32_t NewCounter(Key key);
  // Gives the smallest counter to the key.
  uint32_t TakeOver(Key key);
  void Increment(uint32_t counter);
  uint32_t NewGroup(uint64_t count, uint32_t first);

  const size_t capacity_;
  uint64_t total_ = 0;
  std::vector<Counter> counters_;
  absl::flat_hash_map<Key, uint32_t> counter_of_;
  // Counters by descending count.
  std::vector<uint32_t> order_;
  std::vector<Group> groups_;
  std::vector<uint32_t> free_groups_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_TABLE_SPACE_SAVING_H_
