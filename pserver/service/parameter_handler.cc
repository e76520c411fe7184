#include "pserver/service/parameter_handler.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/finite.h"
#include "base/push_window.h"
#include "base/status_macros.h"
#include "cluster/wire_version.h"
#include "pserver/service/response_values.h"
#include "sparse_table/check_key_groups.h"
#include "wire/wire_limits.h"

namespace oarlock::pserver {
namespace {

// What a group, or a block, adds to a response beside its values, and what
// header and framing add.
constexpr size_t kUnitBytes = 16;
constexpr size_t kHeaderBytes = 256;

// Frames those of `blocks` whose version is not the one in `known_versions`
// (empty: all).
grpc::ByteBuffer AnswerBlocks(TableEntry* entry,
                              const v1::ResponseHeader& header,
                              absl::Span<const BlockIndex> blocks,
                              absl::Span<const uint64_t> known_versions,
                              v1::ValueFormat format, size_t num_values,
                              uint32_t duplicate_groups) {
  const sparse_table::DenseTable& table = *entry->dense;
  ResponseValues values(format, num_values);
  std::vector<BlockIndex> sent;
  std::vector<uint64_t> versions;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t known = known_versions.empty() ? 0 : known_versions[i];
    uint64_t version = 0;
    const auto copy = [&](float* to) {
      version = table.Pull(blocks[i], known, to);
      return version != known;
    };
    if (!values.Append(table.BlockSize(blocks[i]), copy)) continue;
    sent.push_back(blocks[i]);
    versions.push_back(version);
  }
  entry->block_traffic->pulled.fetch_add(sent.size(),
                                         std::memory_order_relaxed);
  const grpc::Slice slice = values.slice();
  return wire::EncodeDenseResponse(header, sent, versions,
                                   absl::MakeConstSpan(&slice, 1), format,
                                   duplicate_groups);
}

absl::Status CheckResponseSize(const TableEntry& entry, size_t num_values) {
  constexpr size_t kMaxValues = (ResponseBudget::kMaxCallBytes - kHeaderBytes -
                                 wire::kMaxGroupsPerMessage * kUnitBytes) /
                                sizeof(float);
  if (num_values <= kMaxValues) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrFormat(
      "a pull of table '%s' asks for %d floats; legal is up to %d in one "
      "response; split it",
      entry.config.name(), num_values, kMaxValues));
}

size_t ResponseBytes(size_t num_values, size_t num_units) {
  return num_values * sizeof(float) + num_units * kUnitBytes + kHeaderBytes;
}

// What rows add up must stay finite. `name` is "show" or "click".
absl::Status CheckStatistics(const TableEntry& entry, absl::string_view name,
                             const wire::SlicedBytes& statistics,
                             size_t num_keys) {
  thread_local std::vector<float> scratch;
  if (statistics.empty()) return absl::OkStatus();
  const float* values = statistics.Elements<float>(0, num_keys, &scratch);
  for (size_t i = 0; i < num_keys; ++i) {
    if (std::isfinite(values[i]) && values[i] >= 0) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "a push to table '%s' has %s %g for its key number %d; legal is a "
        "number of at least 0",
        entry.config.name(), name, values[i], i));
  }
  return absl::OkStatus();
}

// A client checks the whole push before its first message leaves, and says so.
// This is for the others.
absl::Status CheckGradients(const TableEntry& entry,
                            const v1::RequestHeader& header,
                            const wire::ReceivedFloats& values) {
  constexpr size_t kFloatsAtATime = 2048;
  if (header.values_are_finite() || entry.config.allow_nonfinite() ||
      values.AllFinite()) {
    return absl::OkStatus();
  }
  // Which one it is.
  std::vector<float> scratch;
  for (size_t begin = 0; begin < values.size(); begin += kFloatsAtATime) {
    const size_t n = std::min(kFloatsAtATime, values.size() - begin);
    const float* const floats = values.Elements(begin, n, &scratch);
    const size_t found = FirstNotFinite(floats, n);
    if (found == n) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "a push to table '%s' has gradient %g at place %d; legal are finite "
        "numbers, or a table with allow_nonfinite",
        entry.config.name(), floats[found], begin + found));
  }
  return absl::OkStatus();
}

// A push's response, counted when it is given. Part of what waits for it, so
// that counting takes no memory of its own.
class CountedResponse {
 public:
  CountedResponse(CallMetrics::Call call, ParameterHandler::Done done)
      : call_(std::move(call)), done_(std::move(done)) {}

  void operator()(absl::StatusOr<grpc::ByteBuffer> result) {
    call_.End(result);
    done_(std::move(result));
  }

 private:
  CallMetrics::Call call_;
  ParameterHandler::Done done_;
};

// Tells the ledger what became of a push.
void RecordOutcome(const absl::StatusOr<PushOutcome>& outcome,
                   PushLedger::Message* message) {
  if (outcome.ok()) {
    message->Applied();
  } else {
    message->Partial();
  }
}

// Rounds have no ledger, and nobody completes them.
absl::Status LeaveRoundsOut(const v1::RequestHeader& header,
                            const TableEntry& entry,
                            PushLedger::Message* message) {
  if (!entry.aggregator->HasRounds()) return absl::OkStatus();
  if (header.completing_generation() != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "worker %d completes push %d of worker %d for table '%s', whose mode "
        "is SYNC; legal is ASYNC: a round is not completed later",
        header.completing_worker(), header.sequence(), header.worker_index(),
        entry.config.name()));
  }
  message->Drop();
  return absl::OkStatus();
}

// The client's rule (base/push_window.h). A push that completes another
// worker's says nothing of the other pushes of that worker.
absl::Status CheckOldestUnanswered(const v1::RequestHeader& header) {
  const uint64_t oldest = header.oldest_unanswered();
  if (header.completing_generation() != 0) {
    if (oldest == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "a push that completes another worker's has oldest_unanswered %d; "
        "legal is 0",
        oldest));
  }
  const uint64_t sequence = header.sequence();
  constexpr uint64_t kMaxAhead = PushWindows::kWindowSequences - 1;
  const uint64_t least = sequence > kMaxAhead ? sequence - kMaxAhead : 1;
  if (oldest >= least && oldest <= sequence) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "push %d has oldest_unanswered %d; legal is %d to %d: wait for the "
      "responses to older pushes",
      sequence, oldest, least, sequence));
}

// Messages of two splits of one push must never add up to a whole one.
absl::Status CheckRoutingGeneration(const v1::RequestHeader& header,
                                    uint64_t newest) {
  if (header.routing_generation() == 0) {
    return absl::InvalidArgumentError(
        "a push has routing generation 0; legal is that of the partition map "
        "by which it was split, at least 1");
  }
  if (header.routing_generation() <= newest) return absl::OkStatus();
  return absl::UnavailableError(absl::StrFormat(
      "push %d was split by routing generation %d, and this server has %d; "
      "call again",
      header.sequence(), header.routing_generation(), newest));
}

absl::Status CheckMinVersion(const v1::RequestHeader& header,
                             const TableEntry& entry) {
  if (header.min_version() == 0) return absl::OkStatus();
  const uint64_t version = entry.aggregator->Version();
  if (version >= header.min_version()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrFormat(
      "table '%s' is at version %d; the pull wants at least %d; ask again",
      entry.config.name(), version, header.min_version()));
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> ParameterHandler::PullSparse(
    const grpc::ByteBuffer& request, Share* share) const {
  CallMetrics::Call call(metrics_, CallMethod::kPullSparse, request);
  absl::StatusOr<grpc::ByteBuffer> response = DoPullSparse(request, share);
  call.End(response);
  return response;
}

absl::StatusOr<grpc::ByteBuffer> ParameterHandler::PullDense(
    const grpc::ByteBuffer& request, Share* share) const {
  CallMetrics::Call call(metrics_, CallMethod::kPullDense, request);
  absl::StatusOr<grpc::ByteBuffer> response = DoPullDense(request, share);
  call.End(response);
  return response;
}

absl::StatusOr<grpc::ByteBuffer> ParameterHandler::DoPullSparse(
    const grpc::ByteBuffer& request, Share* share) const {
  thread_local std::vector<Key> key_scratch;

  OARLOCK_ASSIGN_OR_RETURN(const wire::PullSparseRequestView pull,
                           wire::DecodePullSparseRequest(request));
  OARLOCK_RETURN_IF_ERROR(CheckHeader(pull.header));
  OARLOCK_RETURN_IF_ERROR(CheckGroups(pull.groups));
  const Key* keys = pull.keys.Elements<Key>(0, pull.num_keys, &key_scratch);
  OARLOCK_RETURN_IF_ERROR(sparse_table::CheckKeyGroups(
      pull.groups, keys, pull.num_keys, map_.partition_bits()));
  OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, FindSparse(pull.table));
  OARLOCK_RETURN_IF_ERROR(CheckMinVersion(pull.header, *entry));
  if (pull.with_statistics && entry->config.sparse().accessor() != v1::CTR) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a pull asks for show and click of table '%s', whose accessor keeps "
        "none; pull without with_statistics, or create it with accessor CTR",
        entry->config.name()));
  }
  const uint32_t dim = entry->config.sparse().dim();
  const size_t num_statistics = pull.with_statistics ? pull.num_keys : 0;
  const size_t num_values = pull.num_keys * dim;
  OARLOCK_RETURN_IF_ERROR(
      CheckResponseSize(*entry, num_values + 2 * num_statistics));
  OARLOCK_RETURN_IF_ERROR(share->Take(
      ResponseBytes(num_values + 2 * num_statistics, pull.groups.size())));

  // Taken before the rows are read, so that it promises no more than they hold.
  const v1::ResponseHeader header = HeaderOf(*entry);
  std::vector<uint64_t> group_versions(pull.groups.size());
  ResponseValues values(pull.format, num_values);
  std::optional<ResponseArray> statistics;
  if (pull.with_statistics) {
    statistics.emplace(2 * num_statistics * sizeof(float));
  }
  absl::Status pulled;
  values.Append(num_values, [&](float* to) {
    if (pull.with_statistics) {
      float* const shows = reinterpret_cast<float*>(statistics->data());
      pulled = entry->sparse->PullWithStatistics(pull.groups, keys, to, shows,
                                                 shows + num_statistics,
                                                 group_versions.data());
    } else {
      pulled =
          entry->sparse->Pull(pull.groups, keys, to, group_versions.data());
    }
    return pulled.ok();
  });
  OARLOCK_RETURN_IF_ERROR(pulled);
  entry->hot_keys->pulls().Add({keys, pull.num_keys});
  const size_t bytes = num_statistics * sizeof(float);
  return wire::EncodePullSparseResponse(
      header, dim, group_versions, values.slice(),
      statistics ? statistics->slice(0, bytes) : grpc::Slice(),
      statistics ? statistics->slice(bytes, 2 * bytes) : grpc::Slice(),
      pull.format);
}

absl::StatusOr<grpc::ByteBuffer> ParameterHandler::DoPullDense(
    const grpc::ByteBuffer& request, Share* share) const {
  OARLOCK_ASSIGN_OR_RETURN(const wire::PullDenseRequestView pull,
                           wire::DecodePullDenseRequest(request));
  OARLOCK_RETURN_IF_ERROR(CheckHeader(pull.header));
  OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, FindDense(pull.table));
  OARLOCK_RETURN_IF_ERROR(CheckMinVersion(pull.header, *entry));
  OARLOCK_ASSIGN_OR_RETURN(const size_t num_values,
                           CheckBlocks(*entry->dense, pull.blocks));
  OARLOCK_RETURN_IF_ERROR(CheckResponseSize(*entry, num_values));
  OARLOCK_RETURN_IF_ERROR(
      share->Take(ResponseBytes(num_values, pull.blocks.size())));

  return AnswerBlocks(entry, HeaderOf(*entry), pull.blocks, pull.known_versions,
                      pull.format, num_values,
                      /*duplicate_groups=*/0);
}

void ParameterHandler::PushSparse(const grpc::ByteBuffer& request, Share* share,
                                  Done done) const {
  thread_local std::vector<Key> key_scratch;

  CountedResponse respond(
      CallMetrics::Call(metrics_, CallMethod::kPushSparse, request),
      std::move(done));
  absl::StatusOr<wire::PushSparseRequestView> push =
      wire::DecodePushSparseRequest(request);
  if (!push.ok()) return respond(push.status());
  absl::Span<const Key> keys;
  PushLedger::Message message;
  const absl::StatusOr<TableEntry*> checked =
      CheckPush(&*push, &key_scratch, &keys, &message);
  if (!checked.ok()) return respond(checked.status());
  TableEntry* const entry = *checked;
  absl::Status planned = share->Plan(kHeaderBytes);
  if (!planned.ok()) return respond(std::move(planned));
  absl::StatusOr<HoldBudget::Hold> hold =
      TakeHold(*entry, push->header, request);
  if (!hold.ok()) return respond(hold.status());
  entry->hot_keys->pushes().Add(keys);
  // Without `this`: an aggregator may hold the callback for longer.
  auto on_applied = [entry, header = HeaderOf(*entry),
                     message = std::move(message), hold = *std::move(hold),
                     respond = std::move(respond)](
                        absl::StatusOr<PushOutcome> outcome) mutable {
    RecordOutcome(outcome, &message);
    if (!outcome.ok()) return respond(outcome.status());
    header.set_table_version(entry->aggregator->Version());
    v1::PushResponse response;
    *response.mutable_header() = std::move(header);
    response.set_duplicate_groups(outcome->duplicate_groups);
    respond(wire::EncodePushResponse(response));
  };
  const uint64_t cut = push->header.cut();
  Pass(*entry, ServerLogKind::kPushSparse, cut, request,
       [aggregator = entry->aggregator.get(), push = *std::move(push),
        on_applied = std::move(on_applied)](
           const absl::StatusOr<uint32_t>& logical_time) mutable {
         if (!logical_time.ok()) return on_applied(logical_time.status());
         push.logical_time = *logical_time;
         aggregator->PushSparse(std::move(push), std::move(on_applied));
       });
}

void ParameterHandler::PushDense(const grpc::ByteBuffer& request, Share* share,
                                 Done done) const {
  CountedResponse respond(
      CallMetrics::Call(metrics_, CallMethod::kPushDense, request),
      std::move(done));
  absl::StatusOr<wire::PushDenseRequestView> push =
      wire::DecodePushDenseRequest(request);
  if (!push.ok()) return respond(push.status());
  PushLedger::Message message;
  const absl::StatusOr<TableEntry*> checked = CheckPush(&*push, &message);
  if (!checked.ok()) return respond(checked.status());
  TableEntry* const entry = *checked;
  std::vector<BlockIndex> wanted;
  if (push->with_values) wanted = push->blocks;
  const size_t num_wanted = push->with_values ? push->num_values : 0;
  absl::Status planned = share->Plan(ResponseBytes(num_wanted, wanted.size()));
  if (!planned.ok()) return respond(std::move(planned));
  absl::StatusOr<HoldBudget::Hold> hold =
      TakeHold(*entry, push->header, request);
  if (!hold.ok()) return respond(hold.status());
  entry->block_traffic->pushed.fetch_add(push->blocks.size(),
                                         std::memory_order_relaxed);
  auto on_applied =
      [entry, header = HeaderOf(*entry), message = std::move(message),
       hold = *std::move(hold), wanted = std::move(wanted), num_wanted,
       format = push->response_format, respond = std::move(respond)](
          absl::StatusOr<PushOutcome> outcome) mutable {
        RecordOutcome(outcome, &message);
        if (!outcome.ok()) return respond(outcome.status());
        header.set_table_version(entry->aggregator->Version());
        respond(AnswerBlocks(entry, header, wanted, /*known_versions=*/{},
                             format, num_wanted, outcome->duplicate_groups));
      };
  const uint64_t cut = push->header.cut();
  Pass(*entry, ServerLogKind::kPushDense, cut, request,
       [aggregator = entry->aggregator.get(), push = *std::move(push),
        on_applied = std::move(on_applied)](
           const absl::StatusOr<uint32_t>& logical_time) mutable {
         if (!logical_time.ok()) return on_applied(logical_time.status());
         aggregator->PushDense(std::move(push), std::move(on_applied));
       });
}

absl::StatusOr<HoldBudget::Hold> ParameterHandler::TakeHold(
    const TableEntry& entry, const v1::RequestHeader& header,
    const grpc::ByteBuffer& request) const {
  if (!entry.aggregator->HasRounds()) return HoldBudget::Hold();
  // The same message again is not kept.
  const bool is_held = entry.aggregator->Holds(header);
  return holds_->TakeForRound(header.round(), is_held ? 0 : request.Length());
}

void ParameterHandler::Pass(const TableEntry& entry, ServerLogKind kind,
                            uint64_t cut, const grpc::ByteBuffer& request,
                            Apply apply) const {
  const bool has_rounds = entry.aggregator->HasRounds();
  auto apply_logged =
      [this, kind, has_rounds, request,
       apply = std::move(apply)](const absl::Status& status) mutable {
        if (!status.ok()) return apply(status);
        apply(log_ == nullptr ? registry_->clock().Now()
                              : log_->AppendPush(kind, has_rounds, request));
      };
  // Rounds are held by the aggregator.
  if (gate_ == nullptr || has_rounds) return apply_logged(absl::OkStatus());
  gate_->Pass(cut, request.Length(), std::move(apply_logged));
}

absl::StatusOr<TableEntry*> ParameterHandler::CheckPush(
    wire::PushSparseRequestView* push, std::vector<Key>* scratch,
    absl::Span<const Key>* keys, PushLedger::Message* message) const {
  OARLOCK_RETURN_IF_ERROR(CheckPushHeader(&push->header, message));
  OARLOCK_RETURN_IF_ERROR(CheckGroups(push->groups));
  *keys = {push->keys.Elements<Key>(0, push->num_keys, scratch),
           push->num_keys};
  OARLOCK_RETURN_IF_ERROR(sparse_table::CheckKeyGroups(
      push->groups, keys->data(), keys->size(), map_.partition_bits()));
  OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, FindSparse(push->table));
  const uint32_t dim = entry->config.sparse().dim();
  if (push->num_values != push->num_keys * dim) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a push to table '%s' has %d gradients for %d keys; legal is %d, %d "
        "per key",
        entry->config.name(), push->num_values, push->num_keys,
        push->num_keys * dim, dim));
  }
  OARLOCK_RETURN_IF_ERROR(CheckGradients(*entry, push->header, push->values));
  OARLOCK_RETURN_IF_ERROR(
      CheckStatistics(*entry, "show", push->shows, push->num_keys));
  OARLOCK_RETURN_IF_ERROR(
      CheckStatistics(*entry, "click", push->clicks, push->num_keys));
  OARLOCK_RETURN_IF_ERROR(LeaveRoundsOut(push->header, *entry, message));
  return entry;
}

absl::StatusOr<TableEntry*> ParameterHandler::CheckPush(
    wire::PushDenseRequestView* push, PushLedger::Message* message) const {
  OARLOCK_RETURN_IF_ERROR(CheckPushHeader(&push->header, message));
  OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, FindDense(push->table));
  OARLOCK_ASSIGN_OR_RETURN(const size_t num_values,
                           CheckBlocks(*entry->dense, push->blocks));
  if (push->num_values != num_values) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a push to table '%s' has %d gradients for %d blocks; legal is %d, "
        "whole blocks",
        entry->config.name(), push->num_values, push->blocks.size(),
        num_values));
  }
  OARLOCK_RETURN_IF_ERROR(CheckGradients(*entry, push->header, push->values));
  OARLOCK_RETURN_IF_ERROR(LeaveRoundsOut(push->header, *entry, message));
  return entry;
}

absl::Status ParameterHandler::CheckHeader(
    const v1::RequestHeader& header) const {
  if (header.protocol_version() != cluster::kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the request speaks protocol version %d, this server %d; use the same "
        "release on both sides",
        header.protocol_version(), cluster::kProtocolVersion));
  }
  if (header.job_hash() != identity_.job_hash) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the request belongs to the job with hash %016x, this server to %016x; "
        "check the job id and the server's address",
        header.job_hash(), identity_.job_hash));
  }
  if (header.server_generation() != 0 &&
      header.server_generation() != identity_.server_generation.value()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: the request is for generation %d of server %d, which is now "
        "generation %d; connect anew",
        cluster::kOtherGeneration, header.server_generation(),
        identity_.server.value(), identity_.server_generation.value()));
  }
  return absl::OkStatus();
}

absl::Status ParameterHandler::CheckPushHeader(
    v1::RequestHeader* header, PushLedger::Message* message) const {
  OARLOCK_RETURN_IF_ERROR(CheckHeader(*header));
  if (header->sequence() == 0) {
    return absl::InvalidArgumentError(
        "a push has sequence 0; legal is 1, 2, 3 ...; without a sequence it "
        "could be applied twice");
  }
  if (header->sequence() > kMaxSequence) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a push has sequence %d; legal is 1, 2, 3 ... up to %d",
                        header->sequence(), kMaxSequence));
  }
  OARLOCK_RETURN_IF_ERROR(CheckOldestUnanswered(*header));
  OARLOCK_RETURN_IF_ERROR(CheckRoutingGeneration(*header, map_.generation()));
  return ledger_->Admit(header, message);
}

absl::Status ParameterHandler::CheckOwner(PartitionIndex partition) const {
  const ServerIndex owner = map_.Owner(partition);
  if (owner == identity_.server) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "moved: partition %d lies on server %d, not on this server %d, as of "
      "routing generation %d; ask for the partition map again",
      partition.value(), owner.value(), identity_.server.value(),
      map_.generation()));
}

absl::Status ParameterHandler::CheckGroups(
    absl::Span<const KeyGroup> groups) const {
  for (const KeyGroup& group : groups) {
    if (group.partition.value() >= map_.num_partitions()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("a request names partition %d; legal is 0 to %d",
                          group.partition.value(), map_.num_partitions() - 1));
    }
    OARLOCK_RETURN_IF_ERROR(CheckOwner(group.partition));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ParameterHandler::CheckBlocks(
    const sparse_table::DenseTable& table,
    absl::Span<const BlockIndex> blocks) const {
  size_t num_values = 0;
  for (const BlockIndex block : blocks) {
    if (block.value() >= table.num_blocks()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "a request names block %d of table '%s'; legal is 0 to %d",
          block.value(), table.config().name(), table.num_blocks() - 1));
    }
    if (!table.Owns(block)) {
      return Annotate(
          CheckOwner(map_.PartitionOfBlock(block, table.num_blocks())),
          absl::StrFormat("block %d of table '%s'", block.value(),
                          table.config().name()));
    }
    num_values += table.BlockSize(block);
  }
  return num_values;
}

absl::StatusOr<TableEntry*> ParameterHandler::FindSparse(TableId id) const {
  OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, registry_->Find(id));
  if (entry->sparse != nullptr) return entry;
  return absl::InvalidArgumentError(
      absl::StrFormat("table %d '%s' is dense; use PullDense and PushDense",
                      id.value(), entry->config.name()));
}

absl::StatusOr<TableEntry*> ParameterHandler::FindDense(TableId id) const {
  OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, registry_->Find(id));
  if (entry->dense != nullptr) return entry;
  return absl::InvalidArgumentError(
      absl::StrFormat("table %d '%s' is sparse; use PullSparse and PushSparse",
                      id.value(), entry->config.name()));
}

v1::ResponseHeader ParameterHandler::HeaderOf(const TableEntry& entry) const {
  v1::ResponseHeader header;
  header.set_server_generation(identity_.server_generation.value());
  header.set_routing_generation(map_.generation());
  header.set_table_version(entry.aggregator->Version());
  if (gate_ != nullptr) header.set_cut(gate_->announced());
  return header;
}

}  // namespace oarlock::pserver
