#include "pserver/checkpoint/push_journal.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "proto/wire_codec.h"

namespace oarlock {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kTimeBytes = sizeof(uint32_t);

// The body of a kRoundMember.
struct [[gnu::packed]] RoundMember {
  uint32_t worker = 0;
  uint64_t generation = 0;
  uint8_t joins = 0;
};

absl::string_view View(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PushJournal>> PushJournal::Open(
    const PushJournalOptions& options, TableRegistry* registry,
    const CutGate* gate) {
  if (!options.replay) {
    OARLOCK_RETURN_IF_ERROR(
        FileSystem::Real()->RemoveTree(options.directory));
  }
  auto journal = absl::WrapUnique(new PushJournal(registry, gate));
  PushLogOptions log;
  log.directory = options.directory;
  log.bytes_max = options.bytes_max;
  log.sync_interval = options.sync_interval;
  const absl::Time start = Clock::Real().Now();
  OARLOCK_ASSIGN_OR_RETURN(
      journal->log_,
      PushLog::Open(log, FileSystem::Real(), [&](const LogRecord& record) {
        return journal->Replay(record);
      }));
  if (options.replay) {
    spdlog::info("replayed {} pushes of the log in {:.2f} s",
                 journal->replayed_pushes_,
                 absl::ToDoubleSeconds(Clock::Real().Now() - start));
  }
  registry->SetObserver(journal.get());
  return journal;
}

PushJournal::~PushJournal() { registry_->SetObserver(nullptr); }

absl::Status PushJournal::AppendPush(JournalKind kind, v1::UpdateMode mode,
                                     const grpc::ByteBuffer& request) {
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
  // A contribution may lie in the log before the cut that its round is after;
  // that of a round before the cut is known as such when it is replayed.
  const uint64_t cut =
      mode == v1::SYNC ? gate_->announced() : gate_->settled();
  return log_->Append(static_cast<uint32_t>(kind), cut, views);
}

absl::Status PushJournal::Append(JournalKind kind, absl::string_view bytes) {
  return log_->Append(static_cast<uint32_t>(kind), gate_->announced(),
                      {&bytes, 1});
}

absl::Status PushJournal::OnCreate(const v1::TableConfig& config) {
  return Append(JournalKind::kCreateTable, config.SerializeAsString());
}

absl::Status PushJournal::OnRoundMember(WorkerIndex worker,
                                        Generation generation, bool joins) {
  const RoundMember member = {worker.value(), generation.value(), joins};
  return Append(JournalKind::kRoundMember,
                {reinterpret_cast<const char*>(&member), sizeof(member)});
}

absl::Status PushJournal::OnFrozen() {
  OARLOCK_RETURN_IF_ERROR(log_->Roll());
  for (const auto& [worker, generation] : registry_->RoundMembers()) {
    OARLOCK_RETURN_IF_ERROR(OnRoundMember(worker, generation, true));
  }
  return absl::OkStatus();
}

absl::Status PushJournal::Replay(const LogRecord& record) {
  if (record.cut < gate_->settled()) return absl::OkStatus();
  const auto malformed = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(
        "a record of kind ", record.kind, " and ", record.bytes.size(),
        " bytes is ", what));
  };
  switch (static_cast<JournalKind>(record.kind)) {
    case JournalKind::kPushSparse:
    case JournalKind::kPushDense:
      if (record.bytes.size() < kTimeBytes) return malformed("too short");
      return ReplayPush(static_cast<JournalKind>(record.kind), record.bytes);
    case JournalKind::kCreateTable: {
      v1::TableConfig config;
      if (!config.ParseFromArray(record.bytes.data(),
                                 static_cast<int>(record.bytes.size()))) {
        return malformed("no table");
      }
      const absl::Status created = registry_->Create(config);
      // Its caller was told.
      return absl::IsAlreadyExists(created) || absl::IsInvalidArgument(created)
                 ? absl::OkStatus()
                 : created;
    }
    case JournalKind::kRoundMember: {
      RoundMember member;
      if (record.bytes.size() != sizeof(member)) return malformed("no member");
      std::memcpy(&member, record.bytes.data(), sizeof(member));
      registry_->SetRoundMember(WorkerIndex(member.worker),
                                Generation(member.generation),
                                member.joins != 0);
      return absl::OkStatus();
    }
  }
  return malformed("of no kind that this release knows");
}

absl::Status PushJournal::ReplayPush(JournalKind kind,
                                     absl::string_view bytes) {
  uint32_t time = 0;
  std::memcpy(&time, bytes.data(), kTimeBytes);
  registry_->clock().AdvanceTo(time);
  // A copy: a round may hold the push for longer.
  const grpc::Slice slice(bytes.data() + kTimeBytes, bytes.size() - kTimeBytes);
  const grpc::ByteBuffer request(&slice, 1);
  ++replayed_pushes_;
  // Whoever sent it was answered, or sends it again.
  const auto ignore = [](const absl::StatusOr<PushOutcome>&) {};
  if (kind == JournalKind::kPushSparse) {
    OARLOCK_ASSIGN_OR_RETURN(PushSparseRequestView push,
                             DecodePushSparseRequest(request));
    OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, registry_->Find(push.table));
    entry->aggregator->PushSparse(std::move(push), ignore);
  } else {
    OARLOCK_ASSIGN_OR_RETURN(PushDenseRequestView push,
                             DecodePushDenseRequest(request));
    OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, registry_->Find(push.table));
    entry->aggregator->PushDense(std::move(push), ignore);
  }
  return absl::OkStatus();
}

}  // namespace oarlock
