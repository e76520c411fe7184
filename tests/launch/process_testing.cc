#include "tests/launch/process_testing.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "tests/base/eventually.h"

namespace oarlock::launch {

std::string ReadFile(const std::string& path) {
  // A file of /proc fails to be read when its process ends, and then its buffer
  // throws. An output stream catches that.
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

std::string WriteScript(const std::string& folder, const std::string& text) {
  const std::string path = folder + "/program";
  WriteFile(path, "#!/bin/bash\n" + text);
  OARLOCK_CHECK(chmod(path.c_str(), 0755) == 0);
  return path;
}

std::string ReadScriptLog(const std::string& path) {
  return absl::StrReplaceAll(ReadFile(path), {{"Terminated\n", ""}});
}

namespace {

// Another one for each process of a folder.
std::string NewOutput(const std::string& folder) {
  static std::atomic<int> num_processes = 0;
  return absl::StrCat(folder, "/output.", ++num_processes);
}

}  // namespace

bool IsGone(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return true;
  const char state = stat[name_end + 2];
  return state == 'Z' || state == 'X';
}

pid_t AwaitPid(const std::string& path) {
  pid_t pid = 0;
  // With its newline, the number is complete.
  Eventually([&] {
    const std::string text = ReadFile(path);
    return !text.empty() && text.back() == '\n' && absl::SimpleAtoi(text, &pid);
  });
  return pid;
}

TestProcess::TestProcess(const std::vector<std::string>& argv,
                         const std::map<std::string, std::string>& environment,
                         const std::string& folder)
    : output_(NewOutput(folder)) {
  std::vector<std::string> words = argv;
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) {
    variables.push_back(absl::StrCat(name, "=", value));
  }
  // A sanitizer's settings are for all programs of a test.
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = getenv(name)) {
      variables.push_back(absl::StrCat(name, "=", value));
    }
  }
  std::vector<char*> word_pointers;
  for (std::string& word : words) word_pointers.push_back(word.data());
  word_pointers.push_back(nullptr);
  std::vector<char*> variable_pointers;
  for (std::string& text : variables) variable_pointers.push_back(text.data());
  variable_pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    const int fd = open(output_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(fd, 1);
    dup2(fd, 2);
    execve(word_pointers[0], word_pointers.data(), variable_pointers.data());
    _exit(126);
  }
  OARLOCK_CHECK(pid_ > 0);
}

TestProcess::~TestProcess() {
  if (result_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void TestProcess::Signal(int signal) const { kill(pid_, signal); }

int TestProcess::Wait() {
  if (result_) return *result_;
  int status = 0;
  if (!Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) {
    return -1000;
  }
  result_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return *result_;
}

}  // namespace oarlock::launch
