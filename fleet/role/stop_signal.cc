#include "fleet/role/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>
#include <utility>

namespace oarlock {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void StopSignal::Block() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

StopSignal::StopSignal(std::function<void(int signal)> on_stop,
                       std::function<void(int signal)> on_second) {
  thread_ = std::thread(
      [this, on_stop = std::move(on_stop), on_second = std::move(on_second)] {
        const sigset_t signals = StopSignals();
        int number = 0;
        while (!closing_) {
          // Wakes up now and then to see whether it is being closed.
          const timespec wait = {0, 100'000'000};
          const int signal = sigtimedwait(&signals, nullptr, &wait);
          if (signal <= 0) continue;
          const auto action = ++number == 1 ? on_stop
                              : number == 2 ? on_second
                                            : nullptr;
          if (action == nullptr) _exit(128 + signal);
          // In its own thread, so that the next signal is heard meanwhile.
          std::thread([action, signal] { action(signal); }).detach();
        }
      });
}

StopSignal::~StopSignal() {
  closing_ = true;
  thread_.join();
}

}  // namespace oarlock
