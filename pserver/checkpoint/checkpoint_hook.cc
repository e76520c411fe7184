#include "pserver/checkpoint/checkpoint_hook.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/process/guarded_process.h"
#include "base/status_macros.h"

namespace oarlock::pserver {
namespace {

// Between two looks at a command that writes nothing.
constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr size_t kReadBytes = 65536;

constexpr Metric kFailures = {
    MetricKind::kCounter,
    "oarlock_coordinator_failed_checkpoint_commands_total", "commands", "",
    "Commands of --on_checkpoint that failed or were killed."};

// The last line of what a command writes that is not empty.
class LastLine {
 public:
  void Add(absl::string_view text) {
    for (const char c : text) {
      if (c == '\n' || c == '\r') {
        End();
      } else if (line_.size() < CheckpointHook::kMaxLineBytes) {
        line_.push_back(c);
      }
    }
  }
  std::string Take() {
    End();
    return absl::Utf8SafeCHexEscape(last_);
  }

 private:
  void End() {
    if (!line_.empty()) last_ = line_;
    line_.clear();
  }

  std::string line_;
  std::string last_;
};

// What a command writes, as far as it is there.
class Output {
 public:
  static absl::StatusOr<Output> Of(FileDescriptor read_end) {
    if (fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) {
      return absl::ErrnoToStatus(errno, "cannot read what a command writes");
    }
    return Output(std::move(read_end));
  }

  bool ended() const { return !read_end_.valid(); }

  void Read(LastLine* line) {
    char buffer[kReadBytes];
    while (!ended()) {
      const ssize_t n = read(read_end_.get(), buffer, sizeof buffer);
      if (n > 0) {
        line->Add({buffer, static_cast<size_t>(n)});
      } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        read_end_.Close();
      } else if (errno == EAGAIN) {
        return;
      }
    }
  }

  // Returns when there is more, or soon.
  void Await() const {
    pollfd more = {.fd = read_end_.get(), .events = POLLIN, .revents = 0};
    poll(&more, 1, static_cast<int>(absl::ToInt64Milliseconds(kPoll)));
  }

 private:
  explicit Output(FileDescriptor read_end) : read_end_(std::move(read_end)) {}

  FileDescriptor read_end_;
};

absl::string_view NameOf(absl::string_view folder) {
  return folder.substr(folder.rfind('/') + 1);
}

std::vector<std::string> VariablesOf(absl::string_view folder) {
  const absl::string_view name = NameOf(folder);
  uint64_t number = 0;
  if (!absl::SimpleAtoi(absl::StripPrefix(name, "ckpt-"), &number)) number = 0;
  return {absl::StrCat("OARLOCK_CHECKPOINT=", folder),
          absl::StrCat("OARLOCK_CHECKPOINT_NAME=", name),
          absl::StrCat("OARLOCK_CHECKPOINT_NUMBER=", number)};
}

}  // namespace

CheckpointHook::CheckpointHook(std::string command, absl::Duration timeout,
                               const Clock& clock)
    : command_(std::move(command)), timeout_(timeout), clock_(clock) {
  thread_ = std::thread([this] { RunAll(); });
}

CheckpointHook::~CheckpointHook() { Stop(); }

void CheckpointHook::Run(std::string folder) {
  absl::MutexLock lock(&mutex_);
  if (!stop_) next_ = std::move(folder);
}

void CheckpointHook::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stop_ || (!runs_ && next_.empty());
    };
    if (!idle()) {
      Log().info("the command of --on_checkpoint is waited for, at most {}",
                 absl::FormatDuration(timeout_));
      clock_.AwaitFor(&mutex_, absl::Condition(&idle), timeout_);
    }
  }
  Stop();
}

void CheckpointHook::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  absl::MutexLock lock(&join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void CheckpointHook::CollectMetrics(MetricsSnapshot* snapshot) const {
  snapshot->Add(kFailures, static_cast<double>(num_failed()));
}

void CheckpointHook::RunAll() {
  for (;;) {
    std::string folder;
    {
      absl::MutexLock lock(&mutex_);
      const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || !next_.empty();
      };
      mutex_.Await(absl::Condition(&wanted));
      if (!next_.empty() && stop_) {
        Log().warn(
            "the command of --on_checkpoint was not run for {}: this "
            "server ends",
            std::string(NameOf(next_)));
        ++num_failed_;
      }
      if (stop_) return;
      folder = std::exchange(next_, "");
      runs_ = true;
    }
    RunOne(folder);
    absl::MutexLock lock(&mutex_);
    runs_ = false;
  }
}

void CheckpointHook::RunOne(const std::string& folder) {
  const absl::Time start = clock_.Now();
  std::string line;
  const absl::Status status = Execute(folder, &line);
  const double seconds = absl::ToDoubleSeconds(clock_.Now() - start);
  const std::string name(NameOf(folder));
  const std::string last =
      line.empty() ? "it wrote nothing" : absl::StrCat("last line: ", line);
  if (status.ok()) {
    Log().info("the command of --on_checkpoint for {} ended after {:.1f} s; {}",
               name, seconds, last);
    return;
  }
  Log().warn("the command of --on_checkpoint for {} {} after {:.1f} s; {}",
             name, std::string(status.message()), seconds, last);
  absl::MutexLock lock(&mutex_);
  ++num_failed_;
}

absl::Status CheckpointHook::Execute(const std::string& folder,
                                     std::string* line) {
  const absl::Time deadline = clock_.Now() + timeout_;
  OARLOCK_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  const FileDescriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid()) return absl::ErrnoToStatus(errno, "needs /dev/null");
  // Starts before the command, so that the command never runs unguarded.
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<GuardedGroup> group,
                           GuardedGroup::Start());
  SpawnActions actions;
  actions.Use(nothing, STDIN_FILENO);
  actions.Use(pipe.write_end, STDOUT_FILENO);
  actions.Use(pipe.write_end, STDERR_FILENO);
  OARLOCK_ASSIGN_OR_RETURN(
      const pid_t pid,
      SpawnProgram({"/bin/sh", "-c", command_}, group->number(), actions,
                   "/bin/sh for --on_checkpoint", VariablesOf(folder)));
  pipe.write_end.Close();
  absl::StatusOr<Output> output = Output::Of(std::move(pipe.read_end));
  LastLine last;
  int ended = 0;
  absl::Status killed = output.status();
  while (killed.ok()) {
    output->Read(&last);
    if (WaitForProcess(pid, &ended, WNOHANG) != 0) break;
    if (!output->ended()) output->Await();
    absl::MutexLock lock(&mutex_);
    if (output->ended()) {
      clock_.AwaitFor(&mutex_, absl::Condition(&stop_), kPoll);
    }
    if (stop_) {
      killed = absl::CancelledError("was killed, since this server ends,");
    } else if (clock_.Now() >= deadline) {
      killed = absl::DeadlineExceededError(
          absl::StrCat("was killed, since --on_checkpoint_timeout_s, ",
                       absl::FormatDuration(timeout_), ", was over,"));
    }
  }
  // What the command has left running goes with it.
  group.reset();
  if (!killed.ok()) {
    // It may have left the group.
    kill(pid, SIGKILL);
    WaitForProcess(pid, &ended, 0);
  }
  if (output.ok()) output->Read(&last);
  *line = last.Take();
  if (!killed.ok()) return killed;
  if (WIFSIGNALED(ended)) {
    return absl::AbortedError(
        absl::StrCat("was ended by signal ", WTERMSIG(ended)));
  }
  if (WEXITSTATUS(ended) != 0) {
    return absl::AbortedError(
        absl::StrCat("failed with exit status ", WEXITSTATUS(ended)));
  }
  return absl::OkStatus();
}

MetricList CheckpointHookMetricsList() {
  static constexpr const Metric* kAll[] = {&kFailures};
  return kAll;
}

}  // namespace oarlock::pserver
