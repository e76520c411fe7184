// SIGINT, SIGTERM and SIGHUP as numbers that a loop looks at.

#ifndef OARLOCK_LAUNCH_SIGNAL_COUNTER_H_
#define OARLOCK_LAUNCH_SIGNAL_COUNTER_H_

#include <signal.h>

namespace oarlock::launch {

// Counts SIGINT and SIGTERM while it lives.
class SignalCounter {
 public:
  SignalCounter();
  ~SignalCounter();
  SignalCounter(const SignalCounter&) = delete;
  SignalCounter& operator=(const SignalCounter&) = delete;

  // The next signal (a SIGHUP is a SIGTERM) that was not yet returned, or 0.
  int Next();

 private:
  int interrupts_before_;
  int terminates_before_;
  struct sigaction old_interrupt_;
  struct sigaction old_terminate_;
  struct sigaction old_hangup_;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_SIGNAL_COUNTER_H_
