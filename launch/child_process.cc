#include "launch/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "launch/after_fork.h"

namespace oarlock::launch {
namespace {

// What a child does between fork and exec, and what it needs for it, made
// before: only async-signal-safe calls are allowed there.
struct ExecPlan {
  std::vector<char*> argv;
  std::vector<char*> environment;
  int log = -1;
  int error_pipe = -1;
  int inherited_descriptor = -1;
  const Guardian* guardian = nullptr;
  pid_t launcher = 0;
};

[[noreturn]] void RunChild(const ExecPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have died before that.
  if (getppid() != plan.launcher) _exit(1);
  // From the child, so that it is guarded before it can start anything.
  plan.guardian->TellFromChild(getpid());
  DefaultSignals();
  OpenNull(0, O_RDONLY);
  dup2(plan.log, 1);
  dup2(plan.log, 2);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (plan.inherited_descriptor >= 0) {
    fcntl(plan.inherited_descriptor, F_SETFD, 0);
  }
  execve(plan.argv[0], plan.argv.data(), plan.environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written =
      write(plan.error_pipe, &error, sizeof(error));
  _exit(127);
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& text : *strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string ExitStatus::Describe() const {
  if (signal == 0) return absl::StrCat("exit code ", exit_code);
  return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const Options& options) {
  OARLOCK_CHECK(!options.argv.empty() && options.guardian != nullptr);
  std::vector<std::string> argv = options.argv;
  std::vector<std::string> environment;
  for (const auto& [name, value] : options.environment) {
    environment.push_back(absl::StrCat(name, "=", value));
  }
  ExecPlan plan;
  plan.argv = Pointers(&argv);
  plan.environment = Pointers(&environment);
  plan.launcher = getpid();
  plan.guardian = options.guardian;
  plan.inherited_descriptor = options.inherited_descriptor;
  plan.log = open(options.log_file.c_str(),
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (plan.log < 0) {
    return ErrnoError(absl::StrCat("opening the log ", options.log_file),
                      errno);
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    const int error = errno;
    close(plan.log);
    return ErrnoError("pipe", error);
  }
  plan.error_pipe = ends[1];
  const pid_t pid = fork();
  if (pid == 0) RunChild(plan);
  const int fork_error = errno;
  close(plan.log);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return ErrnoError("fork", fork_error);
  }
  // Here as well, so that the group exists before anyone signals it.
  setpgid(pid, pid);
  options.guardian->Add(pid);
  std::unique_ptr<ChildProcess> child(new ChildProcess(pid, options.guardian));
  int exec_error = 0;
  const bool failed = ReadFully(ends[0], &exec_error, sizeof(exec_error));
  close(ends[0]);
  if (failed) {
    return ErrnoError(absl::StrCat("running ", options.argv[0]), exec_error);
  }
  return child;
}

ChildProcess::~ChildProcess() {
  while (!Poll()) {
    Signal(SIGKILL);
    // Killed: the end comes at once.
    siginfo_t info = {};
    waitid(P_PID, pid_, &info, WEXITED | WNOWAIT);
  }
}

void ChildProcess::Signal(int signal) {
  if (!exit_status_) kill(-pid_, signal);
}

std::optional<ExitStatus> ChildProcess::Poll() {
  if (exit_status_) return exit_status_;
  siginfo_t info = {};
  if (waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    // Somebody else took it (a SIGCHLD handler of the program around us): how
    // it ended is lost.
    guardian_->Forget(pid_);
    exit_status_ = ExitStatus{.exit_code = 1, .signal = 0};
    return exit_status_;
  }
  if (info.si_pid != pid_) return std::nullopt;
  // The dead leader still holds the group's number: nobody else is hit.
  kill(-pid_, SIGKILL);
  guardian_->Forget(pid_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  exit_status_.emplace();
  if (info.si_code == CLD_EXITED) {
    exit_status_->exit_code = info.si_status;
  } else {
    exit_status_->signal = info.si_status;
  }
  return exit_status_;
}

}  // namespace oarlock::launch
