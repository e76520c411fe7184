// Processes that never outlive their launcher.
//
// Every child leads a process group of its own and gets SIGKILL when the thread
// that started it dies (PR_SET_PDEATHSIG). Its children do not: for them there
// is a guardian. A process that leaves its group (setsid) is out of reach.

#ifndef OARLOCK_LAUNCH_CHILD_PROCESS_H_
#define OARLOCK_LAUNCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "launch/guardian.h"

namespace oarlock::launch {

struct ExitStatus {
  // 0 when it ended by a signal.
  int exit_code = 0;
  // 0 when it ended by itself.
  int signal = 0;

  bool ok() const { return exit_code == 0 && signal == 0; }
  // As shells count: 128 + signal.
  int ShellCode() const { return signal != 0 ? 128 + signal : exit_code; }
  // "exit code 3", "signal 9 (Killed)".
  std::string Describe() const;
};

// A running child. Not thread-safe.
class ChildProcess {
 public:
  struct Options {
    // The first is a path.
    std::vector<std::string> argv;
    // The whole environment.
    cluster::EnvironmentMap environment;
    // Standard output and standard error are appended to it.
    std::string log_file;
    // It keeps this descriptor beside the standard ones; -1: none.
    int inherited_descriptor = -1;
    // Outlives the child.
    Guardian* guardian = nullptr;
  };

  // Starts it. An error says what failed: the log file, fork, or exec.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const Options& options);
  // Kills the group if it is still there.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // To the whole group.
  void Signal(int signal);
  // How it ended, or nullopt while it runs. At its end, what is left of its
  // group is killed.
  std::optional<ExitStatus> Poll();

 private:
  ChildProcess(pid_t pid, Guardian* guardian)
      : pid_(pid), guardian_(guardian) {}

  const pid_t pid_;
  Guardian* const guardian_;
  std::optional<ExitStatus> exit_status_;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_CHILD_PROCESS_H_
