#include "worker/client/grpc_parameter_client.h"

#include <grpc/slice.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "cluster/retry.h"
#include "cluster/wire_version.h"
#include "proto/value_format.h"
#include "proto/wire_codec.h"

namespace oarlock {
namespace {

// A push of a sync round is answered when the slowest worker has pushed; dead
// connections are found by keepalive, not by this limit.
constexpr absl::Duration kRoundTimeout = absl::Hours(24);

// A slice of memory that `owner` keeps alive, as long as gRPC refers to it.
grpc::Slice Share(const void* data, size_t size,
                  const std::shared_ptr<const void>& owner) {
  if (size == 0) return grpc::Slice();
  return grpc::Slice(
      const_cast<void*>(data), size,
      [](void* user_data) {
        delete static_cast<std::shared_ptr<const void>*>(user_data);
      },
      new std::shared_ptr<const void>(owner));
}

// `values` in the format in which they travel: floats where they lie, 16-bit
// values in memory of the slice's own.
grpc::Slice ValuesSlice(v1::ValueFormat format, absl::Span<const float> values,
                        const std::shared_ptr<const void>& owner) {
  if (values.empty()) return grpc::Slice();
  if (format == v1::FLOAT32) {
    return Share(values.data(), values.size() * sizeof(float), owner);
  }
  // Never inlined in the slice object, which would put it at an odd address.
  grpc_slice narrow =
      grpc_slice_malloc_large(values.size() * sizeof(uint16_t));
  auto* const to = reinterpret_cast<uint16_t*>(GRPC_SLICE_START_PTR(narrow));
  NarrowValues(format, values, absl::MakeSpan(to, values.size()));
  return grpc::Slice(narrow, grpc::Slice::STEAL_REF);
}

uint32_t NumBlocks(const v1::DenseTableConfig& dense) {
  return static_cast<uint32_t>((dense.size() + dense.block_size() - 1) /
                               dense.block_size());
}

size_t BlockOffset(const v1::DenseTableConfig& dense, uint32_t block) {
  return std::min<size_t>(size_t{block} * dense.block_size(), dense.size());
}

void Resize(const v1::DenseTableConfig& dense, DenseReplica* replica) {
  replica->values.resize(dense.size());
  replica->block_versions.resize(NumBlocks(dense));
}

// Takes the blocks of an answer, which lie in [block_begin, block_end).
absl::Status CopyBlocks(const v1::DenseTableConfig& dense, uint32_t block_begin,
                        uint32_t block_end, const DenseResponseView& view,
                        DenseReplica* replica) {
  size_t from = 0;
  for (size_t i = 0; i < view.blocks.size(); ++i) {
    const uint32_t block = view.blocks[i].value();
    if (block < block_begin || block >= block_end) {
      return absl::InternalError(
          absl::StrCat("a call for blocks ", block_begin, " to ", block_end - 1,
                       " was answered with block ", block));
    }
    const size_t begin = BlockOffset(dense, block);
    const size_t size = BlockOffset(dense, block + 1) - begin;
    if (size > view.values.size() - from) {
      return absl::InternalError(
          "a call for dense blocks was answered with too few floats");
    }
    view.values.CopyTo(from, size, replica->values.data() + begin);
    replica->block_versions[block] = view.versions[i];
    from += size;
  }
  return absl::OkStatus();
}

// Takes the answer to a message of a sparse push; `versions` may be null.
absl::Status OnSparsePushed(const absl::StatusOr<grpc::ByteBuffer>& answer,
                            ServerIndex server, TableVersions* versions,
                            NewestCut* newest_cut) {
  OARLOCK_RETURN_IF_ERROR(answer.status());
  OARLOCK_ASSIGN_OR_RETURN(const v1::PushResponse response,
                           DecodePushResponse(*answer));
  newest_cut->Observe(response.header().cut());
  if (versions != nullptr) {
    uint64_t& version = (*versions)[server.value()];
    version = std::max(version, response.header().table_version());
  }
  return absl::OkStatus();
}

}  // namespace

// Counts the answers of an operation's messages; calls `done` after the last
// with the first failure.
class GrpcParameterClient::Operation {
 public:
  Operation(size_t num_messages, Done done)
      : remaining_(num_messages), done_(std::move(done)) {}

  void OnMessageDone(absl::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      if (!status.ok() && status_.ok()) status_ = std::move(status);
      if (--remaining_ > 0) return;
    }
    // Nobody else can touch it any more.
    absl::MutexLock lock(&mutex_);
    std::exchange(done_, nullptr)(status_);
  }

 private:
  absl::Mutex mutex_;
  size_t remaining_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Done done_ ABSL_GUARDED_BY(mutex_);
};

GrpcParameterClient::GrpcParameterClient(const ServerConnections* connections,
                                         WorkerIndex worker_index,
                                         Generation worker_generation,
                                         const ValueFormats& formats)
    : connections_(connections),
      worker_index_(worker_index),
      worker_generation_(worker_generation),
      formats_(formats),
      data_plane_(connections) {}

absl::Status GrpcParameterClient::CreateTable(const v1::TableConfig& config) {
  for (uint32_t i = 0; i < connections_->servers().size(); ++i) {
    v1::CreateTableRequest request;
    *request.mutable_config() = config;
    v1::CreateTableResponse response;
    OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
        ServerIndex(i), [&](grpc::ClientContext* context) {
          return connections_->servers()[i].admin->CreateTable(
              context, request, &response);
        }));
  }
  absl::MutexLock lock(&mutex_);
  tables_.try_emplace(TableId(config.id()),
                      std::make_unique<const v1::TableConfig>(config));
  return absl::OkStatus();
}

int GrpcParameterClient::partition_bits() const {
  return connections_->partition_map().partition_bits();
}

const v1::TableConfig& GrpcParameterClient::TableOf(TableId table) const {
  absl::MutexLock lock(&mutex_);
  auto it = tables_.find(table);
  OARLOCK_CHECK(it != tables_.end());
  return *it->second;
}

v1::RequestHeader GrpcParameterClient::HeaderFor(ServerIndex server) const {
  v1::RequestHeader header;
  header.set_protocol_version(kProtocolVersion);
  header.set_job_hash(connections_->job_hash());
  header.set_routing_generation(connections_->partition_map().generation());
  header.set_server_generation(
      connections_->servers()[server.value()].generation.value());
  header.set_worker_index(worker_index_.value());
  header.set_worker_generation(worker_generation_.value());
  return header;
}

std::vector<GrpcParameterClient::GroupRun> GrpcParameterClient::SplitGroups(
    const KeyBatch& keys, size_t bytes_per_key) const {
  std::vector<GroupRun> runs;
  size_t key = 0;
  for (size_t g = 0; g < keys.groups().size(); ++g) {
    const KeyGroup& group = keys.groups()[g];
    const ServerIndex owner =
        connections_->partition_map().Owner(group.partition);
    const bool fits =
        !runs.empty() && runs.back().server == owner &&
        (runs.back().num_keys + group.num_keys) * bytes_per_key <=
            kMessageBytesTarget;
    if (!fits) runs.push_back({owner, g, g, key, 0});
    runs.back().group_end = g + 1;
    runs.back().num_keys += group.num_keys;
    key += group.num_keys;
  }
  return runs;
}

std::vector<GrpcParameterClient::BlockRun> GrpcParameterClient::SplitBlocks(
    const v1::DenseTableConfig& dense, size_t bytes_per_value) const {
  const PartitionMap& map = connections_->partition_map();
  const uint32_t num_blocks = NumBlocks(dense);
  const uint32_t blocks_per_message = static_cast<uint32_t>(std::max<size_t>(
      1, kMessageBytesTarget / (dense.block_size() * bytes_per_value)));
  std::vector<BlockRun> runs;
  for (uint32_t block = 0; block < num_blocks; ++block) {
    const ServerIndex owner =
        map.Owner(map.PartitionOfBlock(BlockIndex(block), num_blocks));
    const bool fits =
        !runs.empty() && runs.back().server == owner &&
        block - runs.back().block_begin < blocks_per_message;
    if (!fits) runs.push_back({owner, block, block});
    runs.back().block_end = block + 1;
  }
  return runs;
}

void GrpcParameterClient::PullSparse(TableId table, const KeyBatch& keys,
                                     float* rows, TableVersions* versions,
                                     std::shared_ptr<const void> memory,
                                     Done done) {
  PullSparse(table, keys, rows, versions, std::move(memory), std::move(done),
             When::kNow);
}

void GrpcParameterClient::PullSparseLater(TableId table, const KeyBatch& keys,
                                          float* rows, TableVersions* versions,
                                          std::shared_ptr<const void> memory,
                                          Done done) {
  PullSparse(table, keys, rows, versions, std::move(memory), std::move(done),
             When::kLater);
}

void GrpcParameterClient::PullSparse(TableId table, const KeyBatch& keys,
                                     float* rows, TableVersions* versions,
                                     std::shared_ptr<const void> memory,
                                     Done done, When when) {
  const uint32_t dim = TableOf(table).sparse().dim();
  const std::vector<GroupRun> runs =
      SplitGroups(keys, sizeof(Key) + dim * ValueBytes(formats_.pull));
  if (versions != nullptr) {
    versions->assign(connections_->servers().size(), 0);
  }
  if (runs.empty()) {
    done(absl::OkStatus());
    return;
  }
  auto operation = std::make_shared<Operation>(runs.size(), std::move(done));
  for (const GroupRun& run : runs) {
    grpc::ByteBuffer request = EncodePullSparseRequest(
        HeaderFor(run.server), table,
        absl::MakeConstSpan(keys.groups())
            .subspan(run.group_begin, run.group_end - run.group_begin),
        formats_.pull, /*with_statistics=*/false,
        Share(keys.keys().data() + run.key_begin, run.num_keys * sizeof(Key),
              memory));
    float* const to = rows + run.key_begin * dim;
    DataPlane::Call call = {
        BatchMethod::kPullSparse, std::move(request),
        [this, operation, memory, to, run, dim,
         versions](absl::StatusOr<grpc::ByteBuffer> answer) {
          operation->OnMessageDone([&]() -> absl::Status {
            OARLOCK_RETURN_IF_ERROR(answer.status());
            OARLOCK_ASSIGN_OR_RETURN(PullSparseResponseView view,
                                     DecodePullSparseResponse(*answer));
            newest_cut_.Observe(view.header.cut());
            if (view.num_values != run.num_keys * dim) {
              return absl::InternalError(absl::StrCat(
                  "a pull of ", run.num_keys, " rows of ", dim,
                  " floats was answered with ", view.num_values, " floats"));
            }
            view.values.CopyTo(0, view.num_values, to);
            if (versions != nullptr) {
              (*versions)[run.server.value()] = view.header.table_version();
            }
            return absl::OkStatus();
          }());
        },
        memory.get()};
    if (when == When::kLater) {
      data_plane_.SendLater(run.server, std::move(call));
    } else {
      data_plane_.Send(run.server, std::move(call),
                       connections_->options().rpc_timeout);
    }
  }
}

void GrpcParameterClient::PullDense(TableId table, DenseReplica* replica,
                                    std::shared_ptr<const void> memory,
                                    Done done) {
  const v1::DenseTableConfig& dense = TableOf(table).dense();
  Resize(dense, replica);
  const std::vector<BlockRun> runs =
      SplitBlocks(dense, ValueBytes(formats_.pull));
  auto operation = std::make_shared<Operation>(runs.size(), std::move(done));
  for (const BlockRun& run : runs) {
    std::vector<BlockIndex> blocks;
    for (uint32_t b = run.block_begin; b < run.block_end; ++b) {
      blocks.push_back(BlockIndex(b));
    }
    grpc::ByteBuffer request = EncodePullDenseRequest(
        HeaderFor(run.server), table, blocks,
        absl::MakeConstSpan(replica->block_versions)
            .subspan(run.block_begin, blocks.size()),
        formats_.pull);
    DataPlane::Call call = {
        BatchMethod::kPullDense, std::move(request),
        [this, operation, memory, replica, run,
         &dense](absl::StatusOr<grpc::ByteBuffer> answer) {
          operation->OnMessageDone([&]() -> absl::Status {
            OARLOCK_RETURN_IF_ERROR(answer.status());
            OARLOCK_ASSIGN_OR_RETURN(DenseResponseView view,
                                     DecodeDenseResponse(*answer));
            newest_cut_.Observe(view.header.cut());
            return CopyBlocks(dense, run.block_begin, run.block_end, view,
                              replica);
          }());
        }};
    data_plane_.Send(run.server, std::move(call),
                     connections_->options().rpc_timeout);
  }
}

std::vector<GrpcParameterClient::PushMessage> GrpcParameterClient::SplitPush(
    const PushRequest& push) const {
  std::vector<PushMessage> messages;
  // A round ends when every server has heard from every worker, so a round's
  // push goes to all of them, with or without content.
  const auto add_silent = [&](std::vector<bool> addressed, PushMessage empty) {
    if (push.round == 0) return;
    for (uint32_t s = 0; s < addressed.size(); ++s) {
      if (addressed[s]) continue;
      empty.groups.server = ServerIndex(s);
      empty.blocks.server = ServerIndex(s);
      messages.push_back(empty);
    }
  };
  const size_t num_servers = connections_->servers().size();
  for (const SparseGradients& sparse : push.sparse) {
    const uint32_t dim = TableOf(sparse.table).sparse().dim();
    std::vector<bool> addressed(num_servers, false);
    for (const GroupRun& run :
         SplitGroups(*sparse.keys,
                     sizeof(Key) + dim * ValueBytes(formats_.push))) {
      PushMessage message;
      message.sparse = &sparse;
      message.groups = run;
      messages.push_back(message);
      addressed[run.server.value()] = true;
    }
    PushMessage empty;
    empty.sparse = &sparse;
    add_silent(std::move(addressed), empty);
  }
  for (const DenseGradients& dense : push.dense) {
    std::vector<bool> addressed(num_servers, false);
    const size_t bytes_per_value = std::max(
        ValueBytes(formats_.push),
        dense.updated == nullptr ? 0 : ValueBytes(formats_.pull));
    for (const BlockRun& run :
         SplitBlocks(TableOf(dense.table).dense(), bytes_per_value)) {
      PushMessage message;
      message.dense = &dense;
      message.blocks = run;
      messages.push_back(message);
      addressed[run.server.value()] = true;
    }
    PushMessage empty;
    empty.dense = &dense;
    add_silent(std::move(addressed), empty);
  }
  return messages;
}

grpc::ByteBuffer GrpcParameterClient::EncodePushMessage(
    const PushMessage& message, const v1::RequestHeader& header,
    const std::shared_ptr<const void>& memory) const {
  if (message.sparse != nullptr) {
    const SparseGradients& sparse = *message.sparse;
    const GroupRun& run = message.groups;
    const size_t dim = TableOf(sparse.table).sparse().dim();
    const auto statistics = [&](const float* values) {
      if (values == nullptr) return grpc::Slice();
      return Share(values + run.key_begin, run.num_keys * sizeof(float),
                   memory);
    };
    return EncodePushSparseRequest(
        header, sparse.table,
        absl::MakeConstSpan(sparse.keys->groups())
            .subspan(run.group_begin, run.group_end - run.group_begin),
        Share(sparse.keys->keys().data() + run.key_begin,
              run.num_keys * sizeof(Key), memory),
        ValuesSlice(formats_.push,
                    absl::MakeConstSpan(sparse.gradients + run.key_begin * dim,
                                        run.num_keys * dim),
                    memory),
        statistics(sparse.shows), statistics(sparse.clicks), /*counts=*/{},
        formats_.push);
  }
  const DenseGradients& dense = *message.dense;
  const BlockRun& run = message.blocks;
  const v1::DenseTableConfig& config = TableOf(dense.table).dense();
  std::vector<BlockIndex> blocks;
  for (uint32_t b = run.block_begin; b < run.block_end; ++b) {
    blocks.push_back(BlockIndex(b));
  }
  const size_t begin = BlockOffset(config, run.block_begin);
  const size_t end = BlockOffset(config, run.block_end);
  const grpc::Slice values = ValuesSlice(
      formats_.push, absl::MakeConstSpan(dense.gradients + begin, end - begin),
      memory);
  return EncodePushDenseRequest(
      header, dense.table, blocks, absl::MakeConstSpan(&values, 1),
      dense.num_steps, /*with_values=*/dense.updated != nullptr, formats_.push,
      formats_.pull);
}

void GrpcParameterClient::Push(const PushRequest& push,
                               TableVersions* versions,
                               std::shared_ptr<const void> memory, Done done) {
  const std::vector<PushMessage> messages = SplitPush(push);
  if (versions != nullptr) {
    versions->assign(connections_->servers().size(), 0);
  }
  if (messages.empty()) {
    done(absl::OkStatus());
    return;
  }
  // How many messages of this push go to a server for a table.
  std::map<std::pair<uint32_t, const void*>, uint32_t> table_parts;
  const auto part_key = [](const PushMessage& message) {
    return message.sparse != nullptr
               ? std::pair<uint32_t, const void*>(
                     message.groups.server.value(), message.sparse)
               : std::pair<uint32_t, const void*>(
                     message.blocks.server.value(), message.dense);
  };
  for (const PushMessage& message : messages) ++table_parts[part_key(message)];
  uint64_t sequence;
  {
    absl::MutexLock lock(&mutex_);
    sequence = ++last_sequence_;
  }
  auto operation =
      std::make_shared<Operation>(messages.size(), std::move(done));
  // What goes to a server goes together, rows first.
  std::vector<std::vector<DataPlane::Call>> calls(
      connections_->servers().size());
  for (size_t i = 0; i < messages.size(); ++i) {
    const PushMessage& message = messages[i];
    const bool is_sparse = message.sparse != nullptr;
    const ServerIndex server =
        is_sparse ? message.groups.server : message.blocks.server;
    v1::RequestHeader header = HeaderFor(server);
    header.set_sequence(sequence);
    header.set_cut(push.cut);
    header.set_part_index(static_cast<uint32_t>(i));
    header.set_part_count(static_cast<uint32_t>(messages.size()));
    header.set_table_part_count(table_parts[part_key(message)]);
    header.set_round(push.round);
    for (const ExampleRange& range : push.examples) {
      v1::ExampleInterval* interval = header.add_examples();
      interval->set_source(range.source);
      interval->set_begin(range.begin);
      interval->set_end(range.end);
      interval->set_epoch(push.epoch);
    }
    calls[server.value()].push_back(CallOf(
        message, EncodePushMessage(message, header, memory),
        is_sparse && message.sparse == &push.sparse[0] ? versions : nullptr,
        memory, [operation](absl::Status status) {
          operation->OnMessageDone(std::move(status));
        }));
  }
  const absl::Duration timeout = push.round == 0
                                     ? connections_->options().rpc_timeout
                                     : kRoundTimeout;
  for (uint32_t server = 0; server < calls.size(); ++server) {
    if (calls[server].empty()) continue;
    data_plane_.Send(ServerIndex(server), std::move(calls[server]), timeout);
  }
}

DataPlane::Call GrpcParameterClient::CallOf(
    const PushMessage& message, grpc::ByteBuffer request,
    TableVersions* versions, std::shared_ptr<const void> memory, Done done) {
  if (message.sparse != nullptr) {
    return {BatchMethod::kPushSparse, std::move(request),
            [this, memory = std::move(memory), versions,
             server = message.groups.server, done = std::move(done)](
                const absl::StatusOr<grpc::ByteBuffer>& answer) mutable {
              done(OnSparsePushed(answer, server, versions, &newest_cut_));
            }};
  }
  const v1::DenseTableConfig& dense = TableOf(message.dense->table).dense();
  DenseReplica* const updated = message.dense->updated;
  if (updated != nullptr) Resize(dense, updated);
  return {BatchMethod::kPushDense, std::move(request),
          [this, memory = std::move(memory), updated, &dense, run = message.blocks,
           done = std::move(done)](
              const absl::StatusOr<grpc::ByteBuffer>& answer) mutable {
            done([&]() -> absl::Status {
              OARLOCK_RETURN_IF_ERROR(answer.status());
              OARLOCK_ASSIGN_OR_RETURN(const DenseResponseView view,
                                       DecodeDenseResponse(*answer));
              newest_cut_.Observe(view.header.cut());
              if (updated == nullptr) return absl::OkStatus();
              return CopyBlocks(dense, run.block_begin, run.block_end, view,
                                updated);
            }());
          }};
}

}  // namespace oarlock
