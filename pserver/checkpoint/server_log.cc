#include "pserver/checkpoint/server_log.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "base/push_window.h"
#include "base/status_macros.h"
#include "pserver/checkpoint/fault_points.h"
#include "storage/file_system.h"
#include "storage/push_log_reader.h"
#include "wire/wire_codec.h"

namespace oarlock::pserver {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kTimeBytes = sizeof(uint32_t);
constexpr uint64_t kSegmentsPerLog = 8;

// The body of a kRoundMember.
struct [[gnu::packed]] RoundMember {
  uint32_t worker = 0;
  uint64_t generation = 0;
  uint8_t joins = 0;
};

// How the body of a kEvictKeys begins; the keys follow.
struct [[gnu::packed]] Eviction {
  uint32_t table = 0;
  uint32_t partition = 0;
  uint32_t time = 0;
  uint64_t complete_rounds = 0;
};

absl::StatusOr<Eviction> ParseEviction(const storage::LogRecord& record) {
  Eviction eviction;
  if (record.bytes.size() < sizeof(eviction) ||
      (record.bytes.size() - sizeof(eviction)) % sizeof(Key) != 0) {
    return absl::DataLossError(absl::StrCat("a record of ", record.bytes.size(),
                                            " bytes is no eviction"));
  }
  std::memcpy(&eviction, record.bytes.data(), sizeof(eviction));
  return eviction;
}

absl::string_view View(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerLog>> ServerLog::Open(
    const ServerLogOptions& options, TableRegistry* registry,
    PushLedger* ledger, const CutGate* gate, const Clock& clock) {
  if (!options.replay) {
    OARLOCK_RETURN_IF_ERROR(
        storage::FileSystem::Real()->RemoveTree(options.directory));
  }
  auto log = absl::WrapUnique(new ServerLog(options, registry, ledger, gate));
  storage::PushLogOptions push_log;
  push_log.directory = options.directory;
  // A trim leaves at most a segment too much.
  push_log.segment_bytes =
      std::min(push_log.segment_bytes, options.bytes_max / kSegmentsPerLog);
  push_log.sync_interval = options.sync_interval;
  const absl::Time start = clock.Now();
  if (registry->HasRounds()) {
    OARLOCK_RETURN_IF_ERROR(log->FindEvictionsBetweenRounds());
  }
  OARLOCK_ASSIGN_OR_RETURN(
      log->log_,
      storage::PushLog::Open(push_log, storage::FileSystem::Real(), clock,
                             [&](const storage::LogRecord& record) {
                               return log->Replay(record);
                             }));
  if (options.replay) {
    for (TableEntry* entry : registry->Entries()) {
      entry->aggregator->EndReplay();
    }
    log->replay_time_ = clock.Now() - start;
    Log().info("replayed {} pushes of the log in {:.2f} s",
               log->replayed_pushes_, absl::ToDoubleSeconds(log->replay_time_));
    log->TellReplayed();
  }
  OARLOCK_RETURN_IF_ERROR(log->Append(ServerLogKind::kBoot, log->boot_id_));
  registry->SetObserver(log.get());
  return log;
}

ServerLog::~ServerLog() { registry_->SetObserver(nullptr); }

absl::StatusOr<uint32_t> ServerLog::AppendPush(
    ServerLogKind kind, bool has_rounds, const grpc::ByteBuffer& request) {
  const bool cut_is_open = gate_->announced() > gate_->finished();
  if (log_->bytes() > 2 * bytes_max_ && !cut_is_open && !saving_ &&
      !cuts_wait_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the log of pushes has ", log_->bytes(),
                     " bytes, more than twice the ", bytes_max_,
                     " at which a checkpoint is due; call again when one has "
                     "been made"));
  }
  const uint32_t time = registry_->clock().Now();
  std::vector<grpc::Slice> slices;
  const grpc::Status dumped = request.Dump(&slices);
  if (!dumped.ok()) {
    return absl::InternalError(
        absl::StrCat("a request cannot be read: ", dumped.error_message()));
  }
  std::vector<absl::string_view> views;
  views.reserve(slices.size() + 1);
  views.emplace_back(reinterpret_cast<const char*>(&time), kTimeBytes);
  for (const grpc::Slice& slice : slices) views.push_back(View(slice));
  // A contribution may be in the log before the cut after which its round
  // belongs. A contribution to a round before the cut is recognized when it is
  // replayed.
  const uint64_t cut = has_rounds ? gate_->announced() : gate_->finished();
  OARLOCK_RETURN_IF_ERROR(
      log_->Append(static_cast<uint32_t>(kind), cut, views));
  return time;
}

absl::Status ServerLog::Append(ServerLogKind kind, absl::string_view bytes) {
  return log_->Append(static_cast<uint32_t>(kind), gate_->announced(),
                      {&bytes, 1});
}

absl::Status ServerLog::AppendEviction(const PartitionEviction& what,
                                       uint64_t complete_rounds,
                                       absl::Span<const Key> keys) {
  const Eviction eviction = {.table = what.table.value(),
                             .partition = what.partition.value(),
                             .time = what.time,
                             .complete_rounds = complete_rounds};
  const absl::string_view slices[] = {
      {reinterpret_cast<const char*>(&eviction), sizeof(eviction)},
      {reinterpret_cast<const char*>(keys.data()), keys.size() * sizeof(Key)}};
  return log_->Append(static_cast<uint32_t>(ServerLogKind::kEvictKeys),
                      gate_->finished(), slices);
}

absl::Status ServerLog::OnCreate(const v1::TableConfig& config) {
  if (run_file_ != nullptr && HasRounds(config)) {
    OARLOCK_RETURN_IF_ERROR(run_file_->Forbid("--mode sync"));
  }
  return Append(ServerLogKind::kCreateTable, config.SerializeAsString());
}

absl::Status ServerLog::OnRoundMember(WorkerIndex worker, Generation generation,
                                      bool joins) {
  const RoundMember member = {worker.value(), generation.value(), joins};
  return Append(ServerLogKind::kRoundMember,
                {reinterpret_cast<const char*>(&member), sizeof(member)});
}

absl::Status ServerLog::OnFrozen() {
  saving_ = true;
  OARLOCK_RETURN_IF_ERROR(log_->Roll());
  std::string members;
  for (const auto& [worker, generation] : registry_->RoundMembers()) {
    const RoundMember member = {worker.value(), generation.value(), 1};
    members.append(reinterpret_cast<const char*>(&member), sizeof(member));
  }
  // This file may be the first one that is left.
  OARLOCK_RETURN_IF_ERROR(Append(ServerLogKind::kBoot, boot_id_));
  return Append(ServerLogKind::kRoundMembers, members);
}

absl::Status ServerLog::OnPublished(uint64_t cut, uint64_t previous) {
  return log_->Trim(registry_->HasRounds() ? previous : cut);
}

absl::Status ServerLog::Replay(const storage::LogRecord& record) {
  const auto malformed = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("a record of kind ", record.kind,
                                            " and ", record.bytes.size(),
                                            " bytes is ", what));
  };
  FaultPoint("restore.between_records");
  switch (static_cast<ServerLogKind>(record.kind)) {
    case ServerLogKind::kPushSparse:
    case ServerLogKind::kPushDense:
      if (record.bytes.size() < kTimeBytes) return malformed("too short");
      return ReplayPush(record);
    case ServerLogKind::kCreateTable: {
      v1::TableConfig config;
      if (!config.ParseFromArray(record.bytes.data(),
                                 static_cast<int>(record.bytes.size()))) {
        return malformed("no table");
      }
      if (HasRounds(config) && !registry_->HasRounds()) {
        OARLOCK_RETURN_IF_ERROR(FindEvictionsBetweenRounds());
      }
      const absl::Status created = registry_->CreateAgain(config);
      if (created.ok()) {
        OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry,
                                 registry_->Find(TableId(config.id())));
        AllowRoundsUpToEviction(entry);
      }
      // Its caller got this error.
      return absl::IsAlreadyExists(created) || absl::IsInvalidArgument(created)
                 ? absl::OkStatus()
                 : created;
    }
    case ServerLogKind::kRoundMember:
    case ServerLogKind::kRoundMembers: {
      if (record.bytes.size() % sizeof(RoundMember) != 0) {
        return malformed("no member");
      }
      for (size_t i = 0; i < record.bytes.size(); i += sizeof(RoundMember)) {
        ReplayMember(record.bytes.substr(i, sizeof(RoundMember)));
      }
      return absl::OkStatus();
    }
    case ServerLogKind::kEvictKeys:
      return ReplayEviction(record);
    case ServerLogKind::kBoot:
      knows_its_boot_ = true;
      if (boot_id_.empty() || record.bytes != boot_id_) {
        may_lack_its_end_ = true;
      }
      return absl::OkStatus();
  }
  return malformed("of no kind that this release knows");
}

void ServerLog::ReplayMember(absl::string_view entry) {
  RoundMember member;
  std::memcpy(&member, entry.data(), sizeof(member));
  registry_->SetRoundMember(WorkerIndex(member.worker),
                            Generation(member.generation), member.joins != 0);
}

absl::Status ServerLog::FindEvictionsBetweenRounds() {
  evictions_.clear();
  const auto visit = [this](const storage::LogRecord& record) -> absl::Status {
    if (static_cast<ServerLogKind>(record.kind) != ServerLogKind::kEvictKeys ||
        record.cut < gate_->finished()) {
      return absl::OkStatus();
    }
    OARLOCK_ASSIGN_OR_RETURN(const Eviction eviction, ParseEviction(record));
    evictions_[TableId(eviction.table)].push_back(eviction.complete_rounds);
    return absl::OkStatus();
  };
  OARLOCK_RETURN_IF_ERROR(
      storage::ReadPushLog(storage::FileSystem::Real(), directory_, visit)
          .status());
  for (TableEntry* entry : registry_->Entries()) AllowRoundsUpToEviction(entry);
  return absl::OkStatus();
}

void ServerLog::AllowRoundsUpToEviction(TableEntry* entry) {
  if (!entry->aggregator->HasRounds()) return;
  const auto found = evictions_.find(TableId(entry->config.id()));
  if (found == evictions_.end()) return;
  entry->aggregator->AllowRounds(found->second.empty() ? kEveryRound
                                                       : found->second.front());
}

absl::Status ServerLog::ReplayEviction(const storage::LogRecord& record) {
  if (record.cut < gate_->finished()) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(const Eviction eviction, ParseEviction(record));
  OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry,
                           registry_->Find(TableId(eviction.table)));
  if (entry->sparse == nullptr ||
      eviction.partition >= entry->sparse->num_partitions()) {
    return absl::DataLossError(
        absl::StrCat("an eviction names partition ", eviction.partition,
                     " of table '", entry->config.name(), "', which has none"));
  }
  const uint64_t complete_rounds = entry->aggregator->CompleteRounds();
  if (complete_rounds != eviction.complete_rounds) {
    return absl::DataLossError(absl::StrCat(
        "an eviction from table '", entry->config.name(),
        "' was done when it had ", uint64_t{eviction.complete_rounds},
        " rounds, and it has ", complete_rounds));
  }
  registry_->clock().AdvanceTo(eviction.time);
  const absl::string_view rest =
      absl::string_view(record.bytes).substr(sizeof(eviction));
  std::vector<Key> keys(rest.size() / sizeof(Key));
  // A step may have found nothing to evict.
  if (!keys.empty()) {
    std::memcpy(keys.data(), rest.data(), keys.size() * sizeof(Key));
  }
  OARLOCK_RETURN_IF_ERROR(entry->sparse->EvictKeys(
      PartitionIndex(eviction.partition), keys, eviction.time));
  std::deque<uint64_t>& left = evictions_[TableId(eviction.table)];
  if (!left.empty()) left.pop_front();
  AllowRoundsUpToEviction(entry);
  return absl::OkStatus();
}

template <typename PushView, typename Apply>
absl::Status ServerLog::ReplayTo(uint64_t cut, uint32_t time,
                                 absl::StatusOr<PushView> push, Apply apply) {
  OARLOCK_RETURN_IF_ERROR(push.status());
  CountReplayed(push->header);
  const absl::StatusOr<TableEntry*> entry = registry_->Find(push->table);
  // A round recognizes what it has. Without rounds, the cut of the record
  // decides.
  const bool has_rounds = entry.ok() && (*entry)->aggregator->HasRounds();
  const bool before = cut < gate_->finished() && !has_rounds;
  if (before) return absl::OkStatus();
  if constexpr (requires { push->logical_time; }) push->logical_time = time;
  OARLOCK_RETURN_IF_ERROR(entry.status());
  ++replayed_pushes_;
  PushLedger::Message message;
  if (!has_rounds) ledger_->Readmit(&push->header, &message);
  // The sender was answered, or sends it again.
  auto done = [message = std::move(message)](
                  const absl::StatusOr<PushOutcome>& outcome) mutable {
    if (outcome.ok()) {
      message.Applied();
    } else {
      message.Partial();
    }
  };
  ((*entry)->aggregator.get()->*apply)(*std::move(push), std::move(done));
  return absl::OkStatus();
}

void ServerLog::CountReplayed(const v1::RequestHeader& header) {
  std::map<uint64_t, std::set<uint32_t>>& messages =
      replayed_messages_[{header.worker_index(), header.worker_generation()}];
  messages[header.sequence()].insert(header.message_index());
  const uint64_t newest = messages.rbegin()->first;
  while (newest - messages.begin()->first >= PushWindows::kWindowSequences) {
    messages.erase(messages.begin());
  }
}

void ServerLog::TellReplayed() {
  // A release before this one has not said who wrote the log.
  if (!knows_its_boot_ && !replayed_messages_.empty()) may_lack_its_end_ = true;
  for (const auto& [worker, messages] : replayed_messages_) {
    v1::ReplayedPushes& of = replayed_of_workers_.emplace_back();
    of.set_worker_index(worker.first);
    of.set_worker_generation(worker.second);
    for (const auto& [sequence, indices] : messages) {
      v1::ReplayedPushes::Push* const push = of.add_pushes();
      push->set_sequence(sequence);
      push->set_messages(indices.size());
    }
  }
  replayed_messages_.clear();
}

absl::Status ServerLog::ReplayPush(const storage::LogRecord& record) {
  uint32_t time = 0;
  std::memcpy(&time, record.bytes.data(), kTimeBytes);
  registry_->clock().AdvanceTo(time);
  // A copy, since a round may hold the push for longer.
  const grpc::Slice slice(record.bytes.data() + kTimeBytes,
                          record.bytes.size() - kTimeBytes);
  const grpc::ByteBuffer request(&slice, 1);
  if (static_cast<ServerLogKind>(record.kind) == ServerLogKind::kPushSparse) {
    return ReplayTo(record.cut, time, wire::DecodePushSparseRequest(request),
                    &Aggregator::PushSparse);
  }
  return ReplayTo(record.cut, time, wire::DecodePushDenseRequest(request),
                  &Aggregator::PushDense);
}

}  // namespace oarlock::pserver
