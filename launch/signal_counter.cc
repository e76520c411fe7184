#include "launch/signal_counter.h"

#include <atomic>

namespace oarlock::launch {
namespace {

// Signals are counted, and every launcher looks for what came after its start.
// A handler can reach nothing but globals.
std::atomic<int> num_interrupts{0};
std::atomic<int> num_terminates{0};

void CountSignal(int signal) {
  (signal == SIGINT ? num_interrupts : num_terminates).fetch_add(1);
}

// What is ignored stays so: nohup, and background jobs of a shell.
void Install(int signal, const struct sigaction& action,
             struct sigaction* old) {
  sigaction(signal, &action, old);
  if (old->sa_handler == SIG_IGN) sigaction(signal, old, nullptr);
}

}  // namespace

SignalCounter::SignalCounter()
    : interrupts_before_(num_interrupts), terminates_before_(num_terminates) {
  struct sigaction action = {};
  action.sa_handler = CountSignal;
  Install(SIGINT, action, &old_interrupt_);
  Install(SIGTERM, action, &old_terminate_);
  Install(SIGHUP, action, &old_hangup_);
}

SignalCounter::~SignalCounter() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
  sigaction(SIGHUP, &old_hangup_, nullptr);
}

int SignalCounter::Next() {
  if (num_interrupts != interrupts_before_) {
    ++interrupts_before_;
    return SIGINT;
  }
  if (num_terminates != terminates_before_) {
    ++terminates_before_;
    return SIGTERM;
  }
  return 0;
}

}  // namespace oarlock::launch
