#include "pserver/checkpoint/checkpoint_loop.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "cluster/retry.h"
#include "cluster/security.h"

namespace oarlock::pserver {
namespace {

// A table that is being created is not on all servers yet. A checkpoint with it
// would not be whole, and one without it would lose it where it was created
// before the cut: logs begin at the cut.
absl::Status CheckTablesAreEverywhere(
    const std::vector<v1::FreezeCutResponse>& frozen) {
  std::set<uint32_t> all;
  for (const v1::FreezeCutResponse& server : frozen) {
    all.insert(server.tables().begin(), server.tables().end());
  }
  for (size_t i = 0; i < frozen.size(); ++i) {
    const std::set<uint32_t> here(frozen[i].tables().begin(),
                                  frozen[i].tables().end());
    for (const uint32_t table : all) {
      if (here.contains(table)) continue;
      return absl::UnavailableError(absl::StrCat("table ", table,
                                                 " is being created: server ",
                                                 i, " does not have it yet"));
    }
  }
  return absl::OkStatus();
}

bool HasTable(const v1::ServerPart& server, uint32_t table) {
  return std::any_of(
      server.tables().begin(), server.tables().end(),
      [table](const v1::TablePart& part) { return part.table() == table; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointLoop>> CheckpointLoop::Create(
    const CheckpointLoopOptions& options, const cluster::PartitionMap* map,
    coordinator::Coordinator* coordinator, TableRegistry* registry,
    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
    const Clocks& clocks) {
  OARLOCK_ASSIGN_OR_RETURN(storage::CheckpointDir dir,
                           storage::CheckpointDir::Create(
                               storage::FileSystem::Real(), options.directory));
  const absl::StatusOr<storage::CheckpointDir::Current> current =
      dir.ReadCurrent();
  auto loop = absl::WrapUnique(new CheckpointLoop(
      options, map, coordinator, registry, std::move(dir), clocks));
  if (current.ok()) {
    absl::MutexLock lock(&loop->mutex_);
    loop->current_ = current->cut;
  }
  for (const std::shared_ptr<grpc::Channel>& channel : channels) {
    loop->stubs_.push_back(v1::CheckpointService::NewStub(channel));
  }
  return loop;
}

CheckpointLoop::CheckpointLoop(const CheckpointLoopOptions& options,
                               const cluster::PartitionMap* map,
                               coordinator::Coordinator* coordinator,
                               TableRegistry* registry,
                               storage::CheckpointDir dir, const Clocks& clocks)
    : options_(options),
      map_(*map),
      coordinator_(coordinator),
      registry_(registry),
      wall_clock_(*clocks.wall),
      clock_(*clocks.monotonic),
      dir_(std::move(dir)) {}

CheckpointLoop::~CheckpointLoop() { Stop(); }

void CheckpointLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void CheckpointLoop::Make(Done done, bool best) {
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    if (stop_) {
      refused = absl::UnavailableError("the server is shutting down");
    } else if (commands_.size() == kMaxWaiting) {
      refused = absl::ResourceExhaustedError(
          absl::StrCat(commands_.size(),
                       " calls wait for a checkpoint; legal "
                       "is up to ",
                       kMaxWaiting, "; call again, slower"));
    } else {
      commands_.push_back({std::move(done), best});
    }
  }
  if (refused.ok()) {
    coordinator_->WakeCheckpoints();
  } else {
    done(refused);
  }
}

uint64_t CheckpointLoop::current() const {
  absl::MutexLock lock(&mutex_);
  return current_;
}

void CheckpointLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    for (grpc::ClientContext* call : calls_) call->TryCancel();
  }
  coordinator_->WakeCheckpoints();
  if (thread_.joinable()) thread_.join();
  std::deque<Command> dropped;
  {
    absl::MutexLock lock(&mutex_);
    dropped.swap(commands_);
  }
  for (Command& command : dropped) {
    command.done(absl::UnavailableError("the server is shutting down"));
  }
}

void CheckpointLoop::Run() {
  if (const uint64_t cut = coordinator_->open_cut(); cut != 0) {
    Close(cut, /*published=*/cut == current());
  }
  absl::Time last = clock_.Now();
  for (;;) {
    coordinator_->AwaitCheckpointDue(clock_,
                                     options_.interval == absl::ZeroDuration()
                                         ? absl::InfiniteFuture()
                                         : last + options_.interval);
    std::deque<Command> commands;
    {
      absl::MutexLock lock(&mutex_);
      if (stop_) return;
      // One checkpoint answers all who asked before it began.
      commands.swap(commands_);
    }
    const bool asked = !commands.empty();
    if (!asked &&
        (registry_->Entries().empty() || coordinator_->Job().ending)) {
      last = clock_.Now();
      continue;
    }
    const bool best =
        std::any_of(commands.begin(), commands.end(),
                    [](const Command& command) { return command.best; });
    const absl::StatusOr<v1::CheckpointResponse> made = MakeOne(best);
    if (!made.ok()) {
      Log().warn("no checkpoint was made: {}; the last one is current",
                 std::string(made.status().message()));
      absl::MutexLock lock(&mutex_);
      ++num_failed_;
    }
    for (Command& command : commands) command.done(made);
    last = clock_.Now();
    if (made.ok() || asked) continue;
    // What failed now would fail again at once.
    absl::MutexLock lock(&mutex_);
    const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stop_ || !commands_.empty();
    };
    clock_.AwaitFor(&mutex_, absl::Condition(&wanted), kPauseAfterFailure);
  }
}

absl::StatusOr<v1::CheckpointResponse> CheckpointLoop::MakeOne(bool best) {
  const absl::Time give_up = clock_.Now() + options_.obstacle_timeout;
  for (bool first = true;; first = false) {
    bool try_again = false;
    absl::StatusOr<v1::CheckpointResponse> made = TryOne(best, &try_again);
    if (!try_again || clock_.Now() > give_up) return made;
    if (first) {
      Log().info("a checkpoint waits: {}",
                 std::string(made.status().message()));
    }
    absl::MutexLock lock(&mutex_);
    if (clock_.AwaitFor(&mutex_, absl::Condition(&stop_), kPauseForObstacle)) {
      return made;
    }
  }
}

absl::StatusOr<v1::CheckpointResponse> CheckpointLoop::TryOne(bool best,
                                                              bool* try_again) {
  const absl::Time start = clock_.Now();
  v1::CheckpointResponse response;
  const absl::StatusOr<uint64_t> opened = coordinator_->OpenCut();
  *try_again = absl::IsUnavailable(opened.status());
  OARLOCK_RETURN_IF_ERROR(opened.status());
  const uint64_t cut = *opened;
  response.set_cut(cut);
  const absl::Status status = Publish(cut, &response, try_again);
  Close(cut, /*published=*/status.ok());
  if (!status.ok()) return status;
  if (best) {
    const absl::Status marked = dir_.MarkBest(cut);
    if (!marked.ok()) {
      Log().warn("{} is not marked as the best one: {}", response.directory(),
                 std::string(marked.message()));
    }
  }
  const absl::Status kept = dir_.Keep(options_.keep);
  if (!kept.ok()) {
    Log().warn("old checkpoints stay: {}", std::string(kept.message()));
  }
  if (options_.on_current != nullptr) options_.on_current(dir_.FolderOf(cut));
  // A failure is in the log, and harmless.
  coordinator_->WriteState().IgnoreError();
  response.set_seconds(absl::ToDoubleSeconds(clock_.Now() - start));
  Log().info("checkpoint {}: {:.1f} MB in {:.2f} s, pushes held for {:.1f} ms",
             response.directory(), response.written_bytes() / 1e6,
             response.seconds(), response.held_seconds() * 1e3);
  absl::MutexLock lock(&mutex_);
  current_ = cut;
  last_time_ = absl::Seconds(response.seconds());
  return response;
}

void CheckpointLoop::Close(uint64_t cut, bool published) {
  v1::CloseCutRequest close;
  close.set_cut(cut);
  close.set_term(coordinator::Coordinator::kTerm);
  close.set_published(published);
  std::vector<v1::CloseCutResponse> closed;
  // A server that does not hear it hears of a later cut, or with a heartbeat
  // that this one is over.
  const absl::Status reported = CallAll(&v1::CheckpointService::Stub::CloseCut,
                                        close, options_.call_timeout, &closed);
  coordinator_->CloseCut();
  if (!published) {
    dir_.Abandon(cut).IgnoreError();
  } else if (!reported.ok()) {
    Log().warn("{}", std::string(reported.message()));
  }
}

absl::Status CheckpointLoop::Publish(uint64_t cut,
                                     v1::CheckpointResponse* response,
                                     bool* try_again) {
  uint64_t round = 0;
  OARLOCK_RETURN_IF_ERROR(OpenAndFreeze(cut, &round, response, try_again));
  OARLOCK_ASSIGN_OR_RETURN(const std::string folder, dir_.Begin(cut));
  OARLOCK_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest,
                           Save(cut, round, folder));
  OARLOCK_RETURN_IF_ERROR(
      dir_.Commit(cut, checkpoint::FormatManifest(manifest)));
  response->set_directory(folder);
  for (const v1::ServerPart& part : manifest.servers()) {
    response->set_written_bytes(response->written_bytes() +
                                part.written_bytes());
  }
  return absl::OkStatus();
}

absl::Status CheckpointLoop::AwaitMarks(bool* try_again) {
  absl::Status status = coordinator_->AwaitMarks(clock_, options_.mark_timeout);
  *try_again = absl::IsAborted(status);
  // May go away, as whoever asked for the checkpoint understands it.
  if (*try_again) return absl::UnavailableError(status.message());
  return status;
}

absl::Status CheckpointLoop::OpenAndFreeze(uint64_t cut, uint64_t* round,
                                           v1::CheckpointResponse* result,
                                           bool* try_again) {
  v1::OpenCutRequest open;
  open.set_cut(cut);
  open.set_term(coordinator::Coordinator::kTerm);
  std::vector<v1::OpenCutResponse> opened;
  OARLOCK_RETURN_IF_ERROR(CallAll(&v1::CheckpointService::Stub::OpenCut, open,
                                  options_.call_timeout, &opened));
  for (const v1::OpenCutResponse& response : opened) {
    *round = std::max<uint64_t>(*round, response.round());
  }
  // Where pushes make rounds, the round ends the cut, and workers report later
  // what they gave to the rounds up to it.
  const bool has_rounds = registry_->HasRounds();
  if (has_rounds) {
    coordinator_->SetCutRound(*round);
  } else {
    OARLOCK_RETURN_IF_ERROR(AwaitMarks(try_again));
  }
  v1::FreezeCutRequest freeze;
  freeze.set_cut(cut);
  freeze.set_term(coordinator::Coordinator::kTerm);
  freeze.set_round(*round);
  std::vector<v1::FreezeCutResponse> frozen;
  OARLOCK_RETURN_IF_ERROR(CallAll(&v1::CheckpointService::Stub::FreezeCut,
                                  freeze, options_.call_timeout, &frozen));
  for (const v1::FreezeCutResponse& response : frozen) {
    result->set_held_seconds(
        std::max(result->held_seconds(), response.held_seconds()));
  }
  const absl::Status everywhere = CheckTablesAreEverywhere(frozen);
  *try_again = !everywhere.ok();
  OARLOCK_RETURN_IF_ERROR(everywhere);
  // Before the first round nobody has trained anything; workers take a round 0
  // for one that is not known yet.
  return has_rounds && *round > 0 ? AwaitMarks(try_again) : absl::OkStatus();
}

absl::StatusOr<v1::CheckpointManifest> CheckpointLoop::Save(
    uint64_t cut, uint64_t round, const std::string& folder) {
  v1::CheckpointManifest manifest;
  manifest.set_rounds(round);
  manifest.set_format_version(checkpoint::kCheckpointFormatVersion);
  manifest.set_job_id(options_.job_id);
  manifest.set_previous_cut(current());
  manifest.set_created_unix_ms(absl::ToUnixMillis(wall_clock_.Now()));
  manifest.set_num_partitions(map_.num_partitions());
  coordinator_->DescribeCut(&manifest);
  v1::SaveCutRequest save;
  save.set_cut(cut);
  save.set_term(coordinator::Coordinator::kTerm);
  save.set_directory(folder);
  std::vector<v1::SaveCutResponse> saved;
  OARLOCK_RETURN_IF_ERROR(CallAll(&v1::CheckpointService::Stub::SaveCut, save,
                                  options_.save_timeout, &saved));
  for (v1::SaveCutResponse& response : saved) {
    manifest.add_servers()->Swap(response.mutable_part());
  }
  for (const TableEntry* entry : registry_->Entries()) {
    // Others have been created since the cut.
    if (HasTable(manifest.servers(0), entry->config.id())) {
      *manifest.add_tables() = entry->config;
    }
  }
  return manifest;
}

absl::Status CheckpointLoop::CallOne(
    absl::FunctionRef<grpc::Status(grpc::ClientContext*)> call,
    absl::Time deadline) {
  cluster::Backoff backoff(cluster::kAwayRetries, absl::ToUnixNanos(deadline));
  for (int attempt = 1;; ++attempt) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(deadline));
    // One that has died meanwhile knows nothing of the cut when it is back.
    context.set_wait_for_ready(attempt == 1);
    if (!options_.token.empty()) {
      context.AddMetadata(cluster::kTokenMetadataKey, options_.token);
    }
    {
      absl::MutexLock lock(&mutex_);
      if (stop_) return absl::UnavailableError("the server is shutting down");
      calls_.push_back(&context);
    }
    const absl::Status status = cluster::FromGrpc(call(&context));
    absl::MutexLock lock(&mutex_);
    std::erase(calls_, &context);
    if (!absl::IsUnavailable(status) || attempt == kCallAttempts) {
      return status;
    }
    clock_.AwaitFor(&mutex_, absl::Condition(&stop_), backoff.Next());
  }
}

template <typename Request, typename Response>
absl::Status CheckpointLoop::CallAll(
    grpc::Status (v1::CheckpointService::Stub::*method)(grpc::ClientContext*,
                                                        const Request&,
                                                        Response*),
    const Request& request, absl::Duration timeout,
    std::vector<Response>* responses) {
  responses->assign(stubs_.size(), Response());
  std::vector<absl::Status> statuses(stubs_.size());
  const absl::Time deadline = absl::FromChrono(GrpcDeadline(timeout));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < stubs_.size(); ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = CallOne(
          [&](grpc::ClientContext* context) {
            return ((*stubs_[i]).*method)(context, request, &(*responses)[i]);
          },
          deadline);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < stubs_.size(); ++i) {
    if (statuses[i].ok()) continue;
    return Annotate(statuses[i],
                    absl::StrCat("server ", i, ", cut ", request.cut()));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::pserver
