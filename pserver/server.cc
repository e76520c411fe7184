#include "pserver/server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "pserver/roll_back.h"

namespace oarlock::pserver {

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& given) {
  ServerOptions options = given;
  std::vector<int> sockets;
  if (options.listen_descriptor >= 0) {
    sockets.push_back(options.listen_descriptor);
  }
  std::unique_ptr<CheckpointHook> hook;
  if (options.server_index == 0 && !options.on_checkpoint.empty()) {
    hook = std::make_unique<CheckpointHook>(options.on_checkpoint,
                                            options.on_checkpoint_timeout,
                                            *options.clocks.monotonic);
    options.on_current = [hook = hook.get()](const std::string& folder) {
      hook->Run(folder);
    };
  }
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ServerLife> life,
                           ServerLife::Begin(options, std::move(sockets)));
  return absl::WrapUnique(
      new Server(options, std::move(hook), std::move(life)));
}

Server::Server(const ServerOptions& options,
               std::unique_ptr<CheckpointHook> hook,
               std::unique_ptr<ServerLife> life)
    : options_(options),
      port_(life->port()),
      endpoint_(life->endpoint()),
      hook_(std::move(hook)),
      life_(std::move(life)) {}

Server::~Server() { Shutdown(); }

Generation Server::generation() const {
  absl::ReaderMutexLock lock(&mutex_);
  return life_ == nullptr ? Generation(0) : life_->generation();
}

absl::Status Server::Wait() {
  absl::Status outcome = WaitForLives();
  if (hook_ != nullptr && outcome.ok() && !shut_down()) hook_->Finish();
  return outcome;
}

absl::Status Server::WaitForLives() {
  for (;;) {
    absl::Status outcome = life()->Wait();
    const std::optional<RollBackOptions> next = life()->NextLife();
    if (!next.has_value() || shut_down()) return outcome;
    OARLOCK_RETURN_IF_ERROR(BeginNextLife(*next));
    if (shut_down()) return absl::OkStatus();
  }
}

absl::Status Server::BeginNextLife(const RollBackOptions& roll_back) {
  ServerOptions options = options_;
  options.roll_back = roll_back;
  options.resume = true;
  options.replay_log = options.resume_from_logs = false;
  OARLOCK_ASSIGN_OR_RETURN(std::vector<int> sockets,
                           life()->DuplicateSockets());
  life()->Shutdown();
  {
    absl::MutexLock lock(&mutex_);
    life_ = nullptr;
  }
  if (options.server_index == 0) {
    OARLOCK_RETURN_IF_ERROR(
        OrderRollBack(&options, [this] { return shut_down(); }));
    if (shut_down()) return absl::OkStatus();
  }
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ServerLife> next,
                           ServerLife::Begin(options, std::move(sockets)));
  bool is_late;
  {
    absl::MutexLock lock(&mutex_);
    is_late = shut_down_;
    life_ = std::move(next);
  }
  if (is_late) life()->Shutdown();
  return absl::OkStatus();
}

void Server::CollectMetrics(MetricsSnapshot* snapshot) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (life_ != nullptr) life_->CollectMetrics(snapshot);
  if (hook_ != nullptr) hook_->CollectMetrics(snapshot);
}

void Server::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
  }
  if (hook_ != nullptr) hook_->Stop();
  absl::ReaderMutexLock lock(&mutex_);
  if (life_ != nullptr) life_->Shutdown();
}

void Server::EndWithoutWorkers() {
  absl::ReaderMutexLock lock(&mutex_);
  if (life_ != nullptr) life_->EndWithoutWorkers();
}

std::vector<const Metric*> ServerMetrics() {
  std::vector<const Metric*> metrics = MetricsOfLife();
  const MetricList of_hook = CheckpointHookMetricsList();
  metrics.insert(metrics.end(), of_hook.begin(), of_hook.end());
  return metrics;
}

}  // namespace oarlock::pserver
