// Real scripts and processes for tests of the launcher.

#ifndef OARLOCK_TESTS_LAUNCH_PROCESS_TESTING_H_
#define OARLOCK_TESTS_LAUNCH_PROCESS_TESTING_H_

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace oarlock::launch {

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);
// An executable shell script; `text` comes after the first line.
std::string WriteScript(const std::string& folder, const std::string& text);

// A log without what bash says when a signal to the group ends its `sleep`.
std::string ReadScriptLog(const std::string& path);

// The process does not exist, or is dead and only not yet waited for.
bool IsGone(pid_t pid);
// The number that a script wrote to a file, once it is there; 0 on timeout.
pid_t AwaitPid(const std::string& path);

// A program with its output in files, in a folder of its own. It has the given
// environment alone, and what sanitizers are told by theirs.
class TestProcess {
 public:
  TestProcess(const std::vector<std::string>& argv,
              const std::map<std::string, std::string>& environment,
              const std::string& folder);
  // Kills it.
  ~TestProcess();
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // The exit code, or minus the signal; -1000 when it does not end in time.
  int Wait();
  std::string Output() const { return ReadFile(output_); }

 private:
  pid_t pid_;
  std::string output_;
  std::optional<int> result_;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_TESTS_LAUNCH_PROCESS_TESTING_H_
