#include "launch/launcher.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launch/job_files.h"
#include "launch/log_files.h"
#include "launch/program.h"
#include "launch/signal_counter.h"

namespace oarlock::launch {
struct Launcher::Process {
  const ProcessPlan* plan = nullptr;
  // Null between a failure and the next start, and after the end.
  std::unique_ptr<ChildProcess> child;
  // Its end is in ended_.
  bool recorded = false;
  int restarts = 0;
  absl::Time started_at;
  // When to start it again, and whether with all others.
  std::optional<absl::Time> restart_at;
  bool with_all = false;
  // Of a server that ended well before the workers: when they must have ended.
  absl::Time early_until = absl::InfiniteFuture();

  bool running() const { return child != nullptr || restart_at.has_value(); }
};

Launcher::Launcher(LauncherOptions options)
    : options_(std::move(options)), clock_(*options_.clocks.monotonic) {}

Launcher::~Launcher() = default;

absl::StatusOr<int> Launcher::Run(const LaunchPlan& plan,
                                  const std::vector<std::string>& argv) {
  plan_ = &plan;
  exit_code_.reset();
  failure_.clear();
  kill_at_ = linger_until_ = absl::InfiniteFuture();
  workers_done_ = interrupted_ = restarting_all_ = workers_signaled_ = false;
  unguarded_ = hastened_ = false;
  restarts_of_all_ = options_.attempts_before;
  OARLOCK_ASSIGN_OR_RETURN(argv_, ResolveProgram(argv, plan.base_environment));
  OARLOCK_RETURN_IF_ERROR(LockLogs());
  OARLOCK_ASSIGN_OR_RETURN(made_token_file_,
                           WriteJobFiles(plan, options_.token_file));
  const absl::Cleanup remove = [&plan] { RemoveJobFiles(plan); };
  SignalCounter signals;
  OARLOCK_ASSIGN_OR_RETURN(guardian_, Guardian::Start(plan.processes.size()));
  FollowFirstWorker();
  absl::Status started = StartAll();
  while (started.ok() && (NumRunning() > 0 || restarting_all_)) {
    options_.tick();
    KeepGuardian();
    while (const int signal = signals.Next()) HandleSignal(signal);
    HandleStopRequest();
    PollAll();
    RestartAllWhenEnded();
    RestartDue();
    HandleWorkersDone();
    HastenServers();
    if (follower_ != nullptr) follower_->Poll();
    Log().flush();
    if (clock_.Now() >= kill_at_) {
      for (auto& process : processes_) {
        if (process->child != nullptr) process->child->Signal(SIGKILL);
      }
    }
    if (NumRunning() > 0) {
      // Ends early when a signal comes.
      poll(nullptr, 0, absl::ToInt64Milliseconds(kPollInterval));
    }
  }
  if (follower_ != nullptr) {
    std::fflush(stdout);
    if (const int64_t left = follower_->Finish(); left > 0) {
      Log().warn("{} bytes of the first worker's log were not read", left);
    }
  }
  // Kills what an error at the start left running.
  ended_.clear();
  processes_.clear();
  guardian_.reset();
  OARLOCK_RETURN_IF_ERROR(started);
  options_.tick();
  return exit_code_.value_or(0);
}

void Launcher::KeepGuardian() {
  const pid_t before = guardian_->pid();
  const absl::StatusOr<bool> renewed = guardian_->Renew();
  if (!renewed.ok()) {
    if (std::exchange(unguarded_, true)) return;
    Log().warn(
        "the guardian, which ends all processes should this launcher die, is "
        "dead, and there is no other yet: {}",
        std::string(renewed.status().message()));
  } else if (*renewed) {
    unguarded_ = false;
    Log().warn(
        "the guardian (pid {}), which ends all processes should this launcher "
        "die, was dead; another one (pid {}) has its place",
        before, guardian_->pid());
  }
}

absl::Status Launcher::LockLogs() {
  std::vector<cluster::LogWriter> writers;
  for (const ProcessPlan& plan : plan_->processes) {
    writers.push_back({plan.role, plan.index});
  }
  // That of the last run would be in its way.
  log_dir_lock_.reset();
  OARLOCK_ASSIGN_OR_RETURN(log_dir_lock_,
                           cluster::LogDirLock::Take(plan_->log_dir, writers));
  return absl::OkStatus();
}

absl::Status Launcher::StartAll() {
  for (const std::string& name : options_.outputs) {
    OARLOCK_RETURN_IF_ERROR(KeepAsOld(absl::StrCat(plan_->log_dir, "/", name)));
  }
  for (const ProcessPlan& plan : plan_->processes) {
    const bool again = options_.attempts_before > 0;
    if (!again) OARLOCK_RETURN_IF_ERROR(KeepAsOld(plan.log_file));
    auto process = std::make_unique<Process>();
    process->plan = &plan;
    process->with_all = again;
    OARLOCK_RETURN_IF_ERROR(
        Annotate(Start(process.get()), absl::StrCat("starting ", plan.Name())));
    processes_.push_back(std::move(process));
  }
  return absl::OkStatus();
}

void Launcher::FollowFirstWorker() {
  follower_.reset();
  if (!options_.follow_first_worker) return;
  for (const ProcessPlan& plan : plan_->processes) {
    if (plan.role == cluster::Role::kServer) continue;
    follower_ = std::make_unique<LogFollower>(plan.log_file, STDOUT_FILENO);
    // Its log goes on.
    if (options_.attempts_before > 0) follower_->Skip();
    return;
  }
}

absl::Status Launcher::Start(Process* process) {
  ChildProcess::Options options;
  options.argv = argv_;
  options.environment = plan_->base_environment;
  for (const auto& [name, value] : process->plan->environment) {
    options.environment[name] = value;
  }
  if (!made_token_file_.empty()) {
    options.environment[kTokenFileVariable] = made_token_file_;
  }
  const int restarts = process->restarts + restarts_of_all_;
  if (restarts > 0) {
    options.environment[kRestartVariable] = absl::StrCat(restarts);
  }
  if (std::exchange(process->with_all, false)) {
    options.environment[kRestartTogetherVariable] = absl::StrCat(1);
  }
  options.log_file = process->plan->log_file;
  options.guardian = guardian_.get();
  options.inherited_descriptor = process->plan->inherited_descriptor;
  process->restart_at.reset();
  process->started_at = clock_.Now();
  OARLOCK_ASSIGN_OR_RETURN(process->child, ChildProcess::Start(options));
  return absl::OkStatus();
}

bool Launcher::RecordEnded() {
  for (auto& process : processes_) {
    if (process->child == nullptr || process->recorded) continue;
    if (const std::optional<ExitStatus> status = process->child->Poll()) {
      process->recorded = true;
      ended_.emplace_back(process.get(), *status);
    }
  }
  // Others notice the death of a process before it can be waited for, and may
  // end first, by themselves.
  bool all_ok = true;
  for (const auto& [process, status] : ended_) {
    if (process->plan->role == cluster::Role::kServer || status.signal != 0)
      return true;
    all_ok = all_ok && status.ok();
  }
  return all_ok;
}

void Launcher::PollAll() {
  // Servers are looked at first and handled last: one that ended after the
  // workers is then never taken for one that ended before them.
  if (!RecordEnded() && !std::exchange(looked_again_, true)) return;
  looked_again_ = false;
  std::vector<std::pair<Process*, ExitStatus>> ended;
  ended.swap(ended_);
  // Of failures the servers' count first, then those by a signal: workers fail
  // without servers, and without one another.
  const auto order = [](const std::pair<Process*, ExitStatus>& end) {
    if (end.first->plan->role == cluster::Role::kServer) return 1;
    if (end.second.ok()) return 0;
    return end.second.signal != 0 ? 2 : 3;
  };
  std::stable_sort(
      ended.begin(), ended.end(),
      [&](const auto& a, const auto& b) { return order(a) < order(b); });
  for (const auto& [process, status] : ended) {
    process->recorded = false;
    HandleExit(process, status);
  }
  for (auto& process : processes_) {
    if (exit_code_.has_value() || clock_.Now() < process->early_until) continue;
    if (!WorkersRun()) continue;
    Fail(*process,
         absl::StrCat(process->plan->Name(),
                      " ended with exit code 0, but workers still run"),
         1);
  }
}

void Launcher::HandleExit(Process* process, const ExitStatus& status) {
  const pid_t pid = process->child->pid();
  process->child.reset();
  if (restarting_all_ && !exit_code_.has_value()) return;  // It was killed.
  const std::string name = process->plan->Name();
  const double seconds =
      absl::ToDoubleSeconds(clock_.Now() - process->started_at);
  const std::string what =
      absl::StrCat(name, " (pid ", pid, ") ended with ", status.Describe(),
                   absl::StrFormat(" after %.1f s", seconds));
  if (exit_code_.has_value()) {
    // It was told to end. A code of its own still says that something was not
    // finished, say a server that could not save.
    if (*exit_code_ == 0 && status.exit_code != 0 &&
        status.exit_code != 128 + SIGTERM) {
      Fail(*process, what, status.ShellCode());
    }
    return;
  }
  if (status.ok()) {
    if (process->plan->role == cluster::Role::kServer && WorkersRun()) {
      Log().info("{} before the workers", what);
      process->early_until = clock_.Now() + options_.early_server_grace;
    }
    return;
  }
  if (!MayRestart(*process, status)) {
    Fail(*process, what, status.ShellCode());
    return;
  }
  if (RestartsAll(*process)) {
    ++restarts_of_all_;
    Log().warn("{}; restart {} of {} of all processes; its log is {}", what,
               restarts_of_all_, plan_->max_restart, process->plan->log_file);
    BeginRestartTogether();
    return;
  }
  ++process->restarts;
  Log().warn("{}; restart {} of {}; its log is {}", what, process->restarts,
             plan_->max_restart, process->plan->log_file);
  process->restart_at =
      clock_.Now() +
      (process->restarts > 1 ? options_.restart_delay : absl::ZeroDuration());
}

bool Launcher::MayRestart(const Process& process,
                          const ExitStatus& status) const {
  return process.restarts + restarts_of_all_ < plan_->max_restart &&
         status.exit_code != kUsageExitCode;
}

bool Launcher::RestartsAll(const Process& process) const {
  // Nothing is left of a collective job without one of its workers.
  if (process.plan->role == cluster::Role::kCollective) return true;
  if (process.plan->role != cluster::Role::kServer)
    return options_.workers_restart_all;
  switch (options_.restart_together) {
    case LauncherOptions::Together::kNobody:
      return false;
    case LauncherOptions::Together::kCoordinator:
      return process.plan->index == 0;
    case LauncherOptions::Together::kServers:
      return true;
  }
  return false;
}

void Launcher::BeginRestartTogether() {
  restarting_all_ = true;
  // A worker that was done has its part in what is done again.
  workers_done_ = false;
  linger_until_ = absl::InfiniteFuture();
  for (auto& process : processes_) {
    process->restart_at.reset();
    process->early_until = absl::InfiniteFuture();
    if (process->child != nullptr) process->child->Signal(SIGKILL);
  }
}

void Launcher::RestartAllWhenEnded() {
  if (!restarting_all_) return;
  if (exit_code_.has_value()) {
    restarting_all_ = false;
    return;
  }
  if (NumRunning() > 0) return;
  restarting_all_ = false;
  const absl::Time at =
      clock_.Now() +
      (restarts_of_all_ > 1 ? options_.restart_delay : absl::ZeroDuration());
  for (auto& process : processes_) {
    process->restart_at = at;
    process->with_all = true;
  }
}

void Launcher::RestartDue() {
  for (auto& process : processes_) {
    if (!process->restart_at || clock_.Now() < *process->restart_at) continue;
    const absl::Status started = Start(process.get());
    if (!started.ok()) {
      Fail(*process,
           absl::StrCat(process->plan->Name(),
                        " could not be started again: ", started.message()),
           1);
    }
  }
}

void Launcher::Fail(const Process& process, const std::string& what,
                    int exit_code) {
  std::string lines;
  for (const std::string& line :
       LastLines(process.plan->log_file, kLogTailLines)) {
    absl::StrAppend(&lines, "\n    ", line);
  }
  Log().error("{}; the last lines of {}:{}", what, process.plan->log_file,
              lines.empty() ? " (it is empty)" : lines);
  exit_code_ = exit_code;
  failure_ = what;
  const int others = NumRunning();
  if (others > 0) {
    Log().error("stopping the other {} process{}", others,
                others == 1 ? "" : "es");
    StopAll(SIGTERM, options_.stop_grace);
  }
}

void Launcher::HandleSignal(int signal) {
  if (interrupted_) {
    Log().warn("second signal: killing all processes");
    kill_at_ = clock_.Now();
    return;
  }
  if (options_.workers_end_on_signal &&
      !std::exchange(workers_signaled_, true)) {
    Log().warn("{}: the workers end the job; a second one stops all",
               signal == SIGINT ? "interrupted" : "asked to terminate");
    for (auto& process : processes_) {
      if (process->plan->role == cluster::Role::kWorker &&
          process->child != nullptr) {
        process->child->Signal(SIGTERM);
      }
    }
    return;
  }
  interrupted_ = true;
  Log().warn("{}: stopping {} processes; a second one kills them",
             signal == SIGINT ? "interrupted" : "asked to terminate",
             NumRunning());
  if (!exit_code_.has_value() || *exit_code_ == 0) exit_code_ = 128 + signal;
  if (failure_.empty()) failure_ = "its launcher was told to end";
  StopAll(signal, options_.interrupt_grace);
}

void Launcher::HandleStopRequest() {
  if (exit_code_.has_value()) return;
  const std::optional<LauncherOptions::StopRequest> request =
      options_.stop_request();
  if (!request.has_value()) return;
  exit_code_ = 1;
  failure_ = request->reason;
  Log().warn("{}; {} {} processes of this node", request->reason,
             request->kill ? "killing" : "stopping", NumRunning());
  StopAll(request->kill ? SIGKILL : SIGTERM, options_.stop_grace);
}

void Launcher::HastenServers() {
  // All workers are of this node and have gone: no server has to wait until
  // they know.
  if (!exit_code_.has_value() || *exit_code_ == 0 || WorkersRun() ||
      NumLocalWorkers() != static_cast<int>(plan_->worker_endpoints.size()) ||
      std::exchange(hastened_, true)) {
    return;
  }
  for (auto& process : processes_) {
    if (process->child != nullptr) process->child->Signal(SIGTERM);
  }
}

void Launcher::HandleWorkersDone() {
  if (exit_code_.has_value() || NumRunning() == 0 || WorkersRun()) return;
  const int local_workers = NumLocalWorkers();
  if (local_workers == 0) return;
  if (!workers_done_) {
    workers_done_ = true;
    const size_t remote = plan_->worker_endpoints.size() - local_workers;
    if (remote == 0) {
      linger_until_ = clock_.Now() + options_.server_linger;
    } else {
      Log().info(
          "this node's workers are done; its servers stay for the {} workers "
          "of other nodes",
          remote);
    }
  }
  if (clock_.Now() < linger_until_) return;
  Log().info("the workers are done, stopping {} server{}", NumRunning(),
             NumRunning() == 1 ? "" : "s");
  exit_code_ = 0;
  StopAll(SIGTERM, options_.stop_grace);
}

void Launcher::StopAll(int signal, absl::Duration grace) {
  for (auto& process : processes_) {
    process->restart_at.reset();
    if (process->child != nullptr) process->child->Signal(signal);
  }
  kill_at_ = std::min(kill_at_, clock_.Now() + grace);
}

int Launcher::NumRunning() const {
  return std::count_if(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process->running(); });
}

int Launcher::NumLocalWorkers() const {
  return processes_.size() - plan_->NumLocal(cluster::Role::kServer);
}

bool Launcher::WorkersRun() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& process) {
                       return process->plan->role != cluster::Role::kServer &&
                              process->running();
                     });
}

}  // namespace oarlock::launch
