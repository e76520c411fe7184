#include "pserver/table/eviction_loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace oarlock::pserver {
namespace {

uint32_t RoundUp(uint32_t time, uint32_t period) {
  return (time + period - 1) / period * period;
}

absl::Status StoppedError() {
  return absl::UnavailableError(
      "the server is shutting down; the eviction was not finished");
}

v1::EvictResponse ToProto(const sparse_table::EvictionResult& result,
                          uint64_t rows) {
  v1::EvictResponse response;
  response.set_examined_rows(result.examined_rows);
  response.set_idle_rows(result.idle_rows);
  response.set_low_score_rows(result.low_score_rows);
  response.set_capacity_rows(result.capacity_rows);
  response.set_rows(rows);
  return response;
}

}  // namespace

EvictionLoop::~EvictionLoop() { Stop(); }

void EvictionLoop::Start() {
  start_time_ = registry_->clock().Now();
  thread_ = std::thread([this] { Run(); });
}

void EvictionLoop::Run() {
  while (!stopping()) {
    ServeCommands();
    EvictWhatIsDue();
    absl::MutexLock lock(&mutex_);
    clock_.AwaitFor(&mutex_,
                    absl::Condition(
                        +[](EvictionLoop* self) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                          return self->stop_ || !self->commands_.empty();
                        },
                        this),
                    kTurn);
  }
}

void EvictionLoop::Evict(const v1::EvictRequest& request, Done done) {
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    if (stop_) {
      refused = StoppedError();
    } else if (commands_.size() == kMaxWaiting) {
      refused = absl::ResourceExhaustedError(
          absl::StrCat(kMaxWaiting,
                       " evictions wait on this server already; wait for one "
                       "of them"));
    } else {
      commands_.push_back({request, std::move(done)});
      return;
    }
  }
  done(refused);
}

void EvictionLoop::ServeCommands() {
  while (true) {
    Command command;
    {
      absl::MutexLock lock(&mutex_);
      if (stop_ || commands_.empty()) return;
      command = std::move(commands_.front());
      commands_.pop_front();
    }
    command.done(Serve(command.request));
  }
}

absl::StatusOr<v1::EvictResponse> EvictionLoop::Serve(
    const v1::EvictRequest& request) {
  for (TableEntry* entry : registry_->Entries()) {
    if (entry->config.name() != request.table()) continue;
    if (entry->sparse == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("table '", request.table(),
                       "' is dense and has no rows to evict; name a sparse "
                       "one"));
    }
    OARLOCK_ASSIGN_OR_RETURN(sparse_table::EvictionLimits limits,
                             entry->sparse->LimitsOf(request.limits()));
    if (!request.has_limits()) limits = entry->sparse->eviction();
    if (!limits.any()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "neither the request nor table '", request.table(),
          "' has a limit; give idle_ticks, score_min or rows_max"));
    }
    OARLOCK_ASSIGN_OR_RETURN(const sparse_table::EvictionResult result,
                             EvictTable(entry, limits));
    Log().info("evicted {} of {} rows of table {} by command",
               result.evicted_rows(), result.examined_rows, request.table());
    return ToProto(result, entry->sparse->Stats().rows);
  }
  return absl::NotFoundError(absl::StrCat(
      "no table is named '", request.table(), "'; see oarlock ctl tables"));
}

void EvictionLoop::EvictWhatIsDue() {
  const uint32_t now = registry_->clock().Now();
  for (TableEntry* entry : registry_->Entries()) {
    if (entry->sparse == nullptr || !entry->sparse->eviction().any()) continue;
    const uint32_t configured =
        entry->config.sparse().eviction().period_ticks();
    const uint32_t period = configured == 0 ? kDefaultPeriodTicks : configured;
    // At multiples of the period, whenever this loop first sees the table: a
    // job that goes on from another evicts when one job would.
    const auto [due, is_new] =
        due_.try_emplace(TableId(entry->config.id()),
                         RoundUp(std::max(start_time_, 1u), period));
    if (now < due->second) continue;
    due->second = RoundUp(now + 1, period);
    const absl::StatusOr<sparse_table::EvictionResult> result =
        EvictTable(entry, entry->sparse->eviction());
    if (stopping()) return;
    if (!result.ok()) {
      Log().error("{}", std::string(result.status().message()));
      continue;
    }
    if (result->evicted_rows() > 0) {
      Log().info("evicted {} of {} rows of table {}", result->evicted_rows(),
                 result->examined_rows, entry->config.name());
    }
  }
  // What failed was logged, and is tried again when it is due again.
  registry_->clock().SetEvicted(now);
}

void EvictionLoop::AwaitEvicted(uint32_t time) {
  absl::MutexLock lock(&mutex_);
  const auto is_over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop_ || registry_->clock().evicted() >= time;
  };
  mutex_.Await(absl::Condition(&is_over));
}

absl::StatusOr<sparse_table::EvictionResult> EvictionLoop::EvictTable(
    TableEntry* entry, const sparse_table::EvictionLimits& limits) {
  sparse_table::SparseTable* const table = entry->sparse.get();
  sparse_table::EvictionResult result;
  for (uint32_t i = 0; i < table->num_partitions(); ++i) {
    if (stopping()) return StoppedError();
    const PartitionEviction what = {TableId(entry->config.id()),
                                    PartitionIndex(i),
                                    registry_->clock().Now()};
    const absl::StatusOr<sparse_table::EvictionResult> evicted = table->Evict(
        what.partition, limits, what.time,
        [&](sparse_table::EvictionStep& step) { return do_step_(what, step); });
    OARLOCK_RETURN_IF_ERROR(Annotate(
        evicted.status(),
        absl::StrCat("evicting rows of table ", entry->config.name())));
    result += *evicted;
  }
  return result;
}

bool EvictionLoop::stopping() const {
  absl::MutexLock lock(&mutex_);
  return stop_;
}

void EvictionLoop::Stop() {
  std::deque<Command> commands;
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    commands.swap(commands_);
  }
  if (thread_.joinable()) thread_.join();
  for (Command& command : commands) command.done(StoppedError());
}

}  // namespace oarlock::pserver
