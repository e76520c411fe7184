// The job's logical time as one server knows it: a counter that the coordinator
// advances and that servers receive with their heartbeats. Rows are stamped
// with it, and decay and eviction use it. So nothing ages while a job stands
// still.

#ifndef OARLOCK_PSERVER_AGGREGATOR_LOGICAL_CLOCK_H_
#define OARLOCK_PSERVER_AGGREGATOR_LOGICAL_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace oarlock::pserver {

// Thread-safe.
class LogicalClock {
 public:
  uint32_t Now() const { return now_.load(std::memory_order_relaxed); }

  // An earlier time than the present one changes nothing.
  void AdvanceTo(uint32_t now) {
    uint32_t known = Now();
    while (known < now &&
           !now_.compare_exchange_weak(known, now, std::memory_order_relaxed)) {
    }
  }

  // Up to this time everything is evicted that was due. As Now, it only grows.
  uint32_t evicted() const { return evicted_.load(std::memory_order_acquire); }
  // REQUIRES: one thread calls it.
  void SetEvicted(uint32_t time) {
    evicted_.store(time, std::memory_order_release);
  }

 private:
  std::atomic<uint32_t> now_{0};
  std::atomic<uint32_t> evicted_{0};
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_LOGICAL_CLOCK_H_
