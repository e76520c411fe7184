// SIGTERM and SIGINT as something that a thread can wait for.

#ifndef OARLOCK_FLEET_ROLE_STOP_SIGNAL_H_
#define OARLOCK_FLEET_ROLE_STOP_SIGNAL_H_

#include <atomic>
#include <functional>
#include <thread>

namespace oarlock {

// Construct it before any other thread is started: threads inherit that the
// signals are blocked. A second signal ends the process at once; where there is
// something to do for it, the third does.
class StopSignal {
 public:
  // Blocks the signals in this thread and those that it starts later.
  static void Block();

  // Calls `on_stop` on a thread of its own when the first signal comes, and
  // `on_second`, which may be null, when the second does. REQUIRES: Block() was
  // called.
  explicit StopSignal(std::function<void(int signal)> on_stop,
                      std::function<void(int signal)> on_second = nullptr);
  ~StopSignal();

 private:
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_ROLE_STOP_SIGNAL_H_
