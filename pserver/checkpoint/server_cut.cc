#include "pserver/checkpoint/server_cut.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "pserver/checkpoint/fault_points.h"
#include "storage/checkpoint_dir.h"

namespace oarlock::pserver {
namespace {

CutCounters StatsFrom(uint64_t cut) {
  CutCounters stats;
  stats.current = cut;
  return stats;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerCut>> ServerCut::Create(
    const ServerCutOptions& options, const cluster::PartitionMap* map,
    TableRegistry* registry, CutGate* gate, const Clocks& clocks) {
  storage::CheckpointStoreOptions store;
  store.directory =
      absl::StrCat(options.directory, "/store/",
                   checkpoint::ServerFolderName(options.server.value()));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<storage::CheckpointStore> live,
                           storage::CheckpointStore::Create(store));
  return absl::WrapUnique(
      new ServerCut(options, map, registry, gate, clocks, std::move(live)));
}

ServerCut::ServerCut(const ServerCutOptions& options,
                     const cluster::PartitionMap* map, TableRegistry* registry,
                     CutGate* gate, const Clocks& clocks,
                     std::unique_ptr<storage::CheckpointStore> store)
    : options_(options),
      registry_(registry),
      gate_(gate),
      wall_clock_(*clocks.wall),
      clock_(*clocks.monotonic),
      store_(std::move(store)),
      writer_(map, options.server, registry, store_.get(), options.num_threads,
              clock_),
      newest_(gate->finished()),
      stats_(StatsFrom(gate->finished())),
      thread_([this] { Run(); }) {}

ServerCut::~ServerCut() { Stop(); }

template <typename Request, typename Response>
void ServerCut::Enqueue(
    absl::StatusOr<Response> (ServerCut::*step)(const Request&),
    const Request& request, Done<Response> done) {
  bool too_many = false;
  {
    absl::MutexLock lock(&mutex_);
    too_many = tasks_.size() >= ServerCutOptions::kMaxTasks;
    if (!stop_ && !too_many) {
      tasks_.push_back([this, step, request, done = std::move(done)](
                           const absl::Status& status) mutable {
        if (status.ok()) {
          done((this->*step)(request));
        } else {
          done(status);
        }
      });
      return;
    }
  }
  if (too_many) {
    return done(absl::ResourceExhaustedError(
        absl::StrCat(ServerCutOptions::kMaxTasks,
                     " steps of cuts wait; call again, "
                     "slower")));
  }
  done(absl::UnavailableError("the server is shutting down"));
}

void ServerCut::Open(const v1::OpenCutRequest& request,
                     Done<v1::OpenCutResponse> done) {
  Enqueue(&ServerCut::DoOpen, request, std::move(done));
}
void ServerCut::Freeze(const v1::FreezeCutRequest& request,
                       Done<v1::FreezeCutResponse> done) {
  Enqueue(&ServerCut::DoFreeze, request, std::move(done));
}
void ServerCut::Save(const v1::SaveCutRequest& request,
                     Done<v1::SaveCutResponse> done) {
  Enqueue(&ServerCut::DoSave, request, std::move(done));
}
void ServerCut::Close(const v1::CloseCutRequest& request,
                      Done<v1::CloseCutResponse> done) {
  Enqueue(&ServerCut::DoClose, request, std::move(done));
}

void ServerCut::Run() {
  for (;;) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || !tasks_.empty();
      };
      mutex_.Await(absl::Condition(&due));
      if (stop_) break;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task(absl::OkStatus());
  }
  End(/*current=*/false);
}

void ServerCut::Stop() {
  std::deque<Task> dropped;
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    dropped.swap(tasks_);
  }
  for (Task& task : dropped) {
    task(absl::UnavailableError("the server is shutting down"));
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status ServerCut::CheckNewest(uint64_t cut) const {
  if (cut == newest_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("server ", options_.server.value(), ": a call for cut ", cut,
                   ", but the newest here is ", newest_));
}

absl::StatusOr<v1::OpenCutResponse> ServerCut::DoOpen(
    const v1::OpenCutRequest& request) {
  if (request.cut() == newest_ && stage_ != Stage::kNone) {
    return opened_response_;
  }
  if (request.cut() <= newest_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "server ", options_.server.value(), ": cut ", request.cut(),
        " is opened, but cut ", newest_, " has been; numbers grow"));
  }
  if (request.cut() - newest_ > ServerCutOptions::kMaxCutsAhead) {
    return absl::InvalidArgumentError(absl::StrCat(
        "server ", options_.server.value(), ": cut ", request.cut(),
        " is opened, and the newest here is ", newest_, "; legal is up to ",
        newest_ + ServerCutOptions::kMaxCutsAhead));
  }
  // Its coordinator has given it up, or is another one now.
  End(/*current=*/false);
  gate_->Finish(newest_);
  previous_ = newest_;
  newest_ = request.cut();
  stage_ = Stage::kOpen;
  opened_ = clock_.Now();
  opened_response_.Clear();
  opened_response_.set_round(registry_->HoldRounds());
  gate_->Announce(newest_);
  return opened_response_;
}

absl::StatusOr<v1::FreezeCutResponse> ServerCut::DoFreeze(
    const v1::FreezeCutRequest& request) {
  OARLOCK_RETURN_IF_ERROR(CheckNewest(request.cut()));
  if (stage_ >= Stage::kFrozen) return frozen_response_;
  if (stage_ != Stage::kOpen) {
    return absl::FailedPreconditionError(
        absl::StrCat("cut ", request.cut(), " is over"));
  }
  const absl::Time give_up = clock_.Now() + options_.round_timeout;
  registry_->AllowRounds(request.round());
  for (const TableEntry* entry : registry_->Entries()) {
    if (!entry->aggregator->AwaitRounds(request.round(), clock_, give_up)) {
      return absl::DeadlineExceededError(absl::StrCat(
          "round ", request.round(), " of table '", entry->config.name(),
          "' was not complete after ",
          absl::FormatDuration(options_.round_timeout), " of waiting"));
    }
  }
  FaultPoint("cut.freeze.before");
  absl::Duration freeze_time;
  gate_->Freeze(request.cut(), [&] {
    const absl::Time start = clock_.Now();
    writer_.Freeze(request.cut());
    freeze_time = clock_.Now() - start;
  });
  stage_ = Stage::kFrozen;
  const absl::Status recorded =
      log_ == nullptr ? absl::OkStatus() : log_->OnFrozen();
  registry_->AllowRounds(kEveryRound);
  FaultPoint("cut.freeze.after");
  // The cut is given up: its log would not say who takes part in rounds.
  OARLOCK_RETURN_IF_ERROR(recorded);
  const absl::Duration held = clock_.Now() - opened_;
  frozen_response_.Clear();
  for (const TableId table : writer_.frozen_tables()) {
    frozen_response_.add_tables(table.value());
  }
  frozen_response_.set_held_seconds(absl::ToDoubleSeconds(held));
  frozen_response_.set_freeze_seconds(absl::ToDoubleSeconds(freeze_time));
  absl::MutexLock lock(&mutex_);
  stats_.held += held;
  stats_.freezing += freeze_time;
  return frozen_response_;
}

absl::Status ServerCut::CheckFolder(const v1::SaveCutRequest& request) const {
  const std::string expected = absl::StrCat(
      options_.directory, "/", storage::CheckpointName(request.cut()));
  // Not as text: servers may write the path of their folder differently.
  std::error_code error;
  if (std::filesystem::weakly_canonical(request.directory(), error) ==
          std::filesystem::weakly_canonical(expected, error) &&
      !error) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "cut ", request.cut(), " is to be saved in ", request.directory(),
      ", and this server's --checkpoint_dir is ", options_.directory,
      "; give all servers the same folder"));
}

absl::StatusOr<v1::SaveCutResponse> ServerCut::DoSave(
    const v1::SaveCutRequest& request) {
  OARLOCK_RETURN_IF_ERROR(CheckNewest(request.cut()));
  if (stage_ == Stage::kSaved) return saved_response_;
  if (stage_ != Stage::kFrozen) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cut ", request.cut(), " is to be saved, but it is not frozen"));
  }
  OARLOCK_RETURN_IF_ERROR(CheckFolder(request));
  OARLOCK_ASSIGN_OR_RETURN(*saved_response_.mutable_part(),
                           writer_.Save(request.directory()));
  stage_ = Stage::kSaved;
  absl::MutexLock lock(&mutex_);
  stats_.saving += absl::Seconds(saved_response_.part().write_seconds());
  stats_.written_bytes += saved_response_.part().written_bytes();
  return saved_response_;
}

absl::StatusOr<v1::CloseCutResponse> ServerCut::DoClose(
    const v1::CloseCutRequest& request) {
  if (request.cut() > newest_ && !request.published()) {
    // It was opened before this server came, or was never told here.
    End(/*current=*/false);
    newest_ = request.cut();
  }
  OARLOCK_RETURN_IF_ERROR(CheckNewest(request.cut()));
  const bool current = request.published() && stage_ == Stage::kSaved;
  End(current);
  if (current) FaultPoint("cut.close.before_trim");
  if (current && log_ != nullptr) {
    const absl::Status trimmed = log_->OnPublished(request.cut(), previous_);
    if (!trimmed.ok()) Log().warn("{}", std::string(trimmed.message()));
  }
  gate_->Finish(newest_);
  return v1::CloseCutResponse();
}

void ServerCut::End(bool current) {
  registry_->AllowRounds(kEveryRound);
  if (writer_.frozen() != 0) writer_.Thaw(current);
  if (log_ != nullptr) log_->OnCutOver();
  if (stage_ != Stage::kNone) {
    absl::MutexLock lock(&mutex_);
    ++(current ? stats_.num_published : stats_.num_given_up);
    if (current) {
      stats_.current = newest_;
      stats_.current_since = wall_clock_.Now();
    }
  }
  stage_ = Stage::kNone;
}

}  // namespace oarlock::pserver
