// Runs the processes of a plan to their end.
//
// The death of any process is noticed within kPollInterval. A process that
// failed is started again while its plan allows, else all others are stopped
// and the run has failed. When this node's workers have ended well, its servers
// may end by themselves and are stopped after kServerLinger; where other nodes
// have workers too, their servers are waited for without limit.

#ifndef OARLOCK_LAUNCH_LAUNCHER_H_
#define OARLOCK_LAUNCH_LAUNCHER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cluster/log_dir_lock.h"
#include "launch/child_process.h"
#include "launch/launch_plan.h"
#include "launch/log_follower.h"

namespace oarlock::launch {

struct LauncherOptions {
  // Called about every kPollInterval from Run; must return soon.
  std::function<void()> tick = [] {};
  // From SIGTERM to SIGKILL when the job has failed.
  absl::Duration stop_grace = absl::Seconds(5);
  // From a forwarded SIGINT or SIGTERM to SIGKILL; a second one kills at once.
  absl::Duration interrupt_grace = absl::Seconds(20);
  // A first SIGINT or SIGTERM goes to the workers of this node as SIGTERM and
  // to nobody else: they end the job well by themselves. A second one stops
  // all.
  bool workers_end_on_signal = false;
  // From the end of the last worker to SIGTERM for the servers.
  absl::Duration server_linger = absl::Seconds(10);
  // How long workers may go on after a server ended with exit code 0: programs
  // whose last worker stops the servers end in that order.
  absl::Duration early_server_grace = absl::Seconds(5);
  // From the second restart of a process on; the first is immediate.
  absl::Duration restart_delay = absl::Seconds(1);
  // A failed process of which nothing is left but with all others: they are
  // killed, and all are started again. For jobs that go on from their last
  // checkpoint together.
  enum class Together {
    kNobody,
    // Server 0, which alone knows who works on what.
    kCoordinator,
    kServers,
  };
  Together restart_together = Together::kNobody;
  // A worker that failed takes all others with it, too.
  bool workers_restart_all = false;
  // What the first worker of this node writes to its log is copied to standard
  // output.
  bool follow_first_worker = false;
  // Files that the processes write to the log folder beside their logs: as of
  // those, what the last job left is kept as .old.
  std::vector<std::string> outputs;
  // How often the processes of all nodes were started before this run. From 1
  // on they are told so, and their logs go on.
  int attempts_before = 0;
  // The token of the job's servers, as the user gave it. Empty: where all
  // servers are on the loopback of this machine, the launcher makes one.
  std::string token_file = {};
  // Asked about every kPollInterval: whether what runs has to end because of
  // another node.
  struct StopRequest {
    std::string reason;
    // They are killed rather than asked to end.
    bool kill = false;
  };
  std::function<std::optional<StopRequest>()> stop_request = [] {
    return std::nullopt;
  };
  // Graces, delays and what processes are said to have taken are on the
  // monotonic one; they outlive the launcher.
  Clocks clocks = {};
};

// What a child has in its environment after its first restart: how many there
// were.
inline constexpr char kRestartVariable[] = "OARLOCK_RESTART";

// What it has, "1", when all others were started again with it.
inline constexpr char kRestartTogetherVariable[] = "OARLOCK_RESTART_TOGETHER";

// Not thread-safe. Run needs the thread that called it to live until it
// returns. While it runs, SIGINT and SIGTERM of the whole program are its own.
class Launcher {
 public:
  static constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
  // Last lines of the log of a process that failed.
  static constexpr int kLogTailLines = 20;

  explicit Launcher(LauncherOptions options = {});
  ~Launcher();

  // Runs `argv` (as ResolveProgram takes it) as every process of the plan and
  // returns the exit code: 0; the first failing process's (128 + signal); 1
  // when a server ended before the workers, or because of a stop request; 128 +
  // signal when interrupted. An error when something could not be started at
  // all, or another job writes the same logs: nothing runs then. The logs are
  // this launcher's until it is destroyed or runs again.
  absl::StatusOr<int> Run(const LaunchPlan& plan,
                          const std::vector<std::string>& argv);

  // Of the last run: whose failure ended it, as part of a sentence.
  const std::string& failure() const { return failure_; }
  // The launcher was told to end, or a process that its command line is wrong:
  // not to be tried again.
  bool is_final() const { return interrupted_ || exit_code_ == kUsageExitCode; }

 private:
  struct Process;

  // A wrong command line or environment: another attempt would end the same
  // way.
  static constexpr int kUsageExitCode = 2;

  // Servers of a job that was stopped end as soon as its workers have.
  void HastenServers();
  // Another guardian has the place of one that died.
  void KeepGuardian();
  absl::Status LockLogs();
  // Tells `oarlock ctl` of the job, and its processes the token.
  absl::Status StartAll();
  absl::Status Start(Process* process);
  void PollAll();
  // Moves those that have ended to ended_; whether it tells who began.
  bool RecordEnded();
  void FollowFirstWorker();
  void HandleExit(Process* process, const ExitStatus& status);
  bool MayRestart(const Process& process, const ExitStatus& status) const;
  void RestartDue();
  // Kills all that run; they are started again when all have ended.
  bool RestartsAll(const Process& process) const;
  void BeginRestartTogether();
  void RestartAllWhenEnded();
  void Fail(const Process& process, const std::string& what, int exit_code);
  void HandleSignal(int signal);
  void HandleStopRequest();
  void HandleWorkersDone();
  // Signals all that run and kills them at `grace` from now.
  void StopAll(int signal, absl::Duration grace);
  int NumRunning() const;
  int NumLocalWorkers() const;
  bool WorkersRun() const;

  const LauncherOptions options_;
  const Clock& clock_;
  const LaunchPlan* plan_ = nullptr;
  std::vector<std::string> argv_;
  std::unique_ptr<cluster::LogDirLock> log_dir_lock_;
  // That it has made; else empty.
  std::string made_token_file_;
  std::unique_ptr<Guardian> guardian_;
  // It died, and none could be started in its place.
  bool unguarded_ = false;
  bool hastened_ = false;
  std::vector<std::unique_ptr<Process>> processes_;
  // Of processes_, not yet handled.
  std::vector<std::pair<Process*, ExitStatus>> ended_;
  bool looked_again_ = false;
  std::unique_ptr<LogFollower> follower_;
  // Set once the outcome is known; children are only waited for then.
  std::optional<int> exit_code_;
  std::string failure_;
  absl::Time kill_at_ = absl::InfiniteFuture();
  // When servers that remain are told to end.
  absl::Time linger_until_ = absl::InfiniteFuture();
  bool workers_done_ = false;
  bool interrupted_ = false;
  // The workers were told to end.
  bool workers_signaled_ = false;
  // All are being ended to be started again.
  bool restarting_all_ = false;
  // How often that has happened.
  int restarts_of_all_ = 0;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_LAUNCHER_H_
