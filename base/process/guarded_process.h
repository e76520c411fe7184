// Child processes that end with this one.

#ifndef OARLOCK_BASE_PROCESS_GUARDED_PROCESS_H_
#define OARLOCK_BASE_PROCESS_GUARDED_PROCESS_H_

#include <spawn.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/process/file_descriptor.h"

namespace oarlock {

// A pipe. A started program inherits an end only through SpawnActions.
struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};
absl::StatusOr<Pipe> MakePipe();

// waitpid, again when a signal interrupts it.
pid_t WaitForProcess(pid_t pid, int* status, int flags);

// Gives a child process its descriptors.
class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  // `fd` is number `as` there.
  void Use(const FileDescriptor& fd, int as) {
    posix_spawn_file_actions_adddup2(&actions_, fd.get(), as);
  }
  void Discard(int stream);
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Runs the program `words[0]`, which is looked for in PATH, in the process
// group `group`; 0: it leads a new one. No signal is blocked, and SIGPIPE has
// its default action. Its environment is this process's, with `variables`,
// "NAME=value", in place of those of the same names. The error says what could
// not be run: `what`.
absl::StatusOr<pid_t> SpawnProgram(
    const std::vector<std::string>& words, pid_t group,
    const SpawnActions& actions, const std::string& what,
    const std::vector<std::string>& variables = {});

// A process group that is killed when this object is destroyed or this process
// dies, by any cause. A process killed by SIGKILL cannot end its commands
// itself, and a command that waits and never writes would not end by itself. A
// process that leaves the group (setsid) is not killed.
//
// The leader of the group is a shell that reads from a pipe. Only this object
// has the other end, and nothing is written to it. (PR_SET_PDEATHSIG is not
// sufficient: the signal is sent when the thread that started the command ends.
// It reaches the command's shell but not the children of that shell.)
class GuardedGroup {
 public:
  static absl::StatusOr<std::unique_ptr<GuardedGroup>> Start();

  // Takes ownership of the process `leader`, which reads from the other end of
  // `alive`.
  GuardedGroup(pid_t leader, FileDescriptor alive)
      : leader_(leader), alive_(std::move(alive)) {}
  ~GuardedGroup();
  GuardedGroup(const GuardedGroup&) = delete;
  GuardedGroup& operator=(const GuardedGroup&) = delete;

  // The number of the group, for setpgid.
  pid_t number() const { return leader_; }

 private:
  const pid_t leader_;
  const FileDescriptor alive_;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_GUARDED_PROCESS_H_
