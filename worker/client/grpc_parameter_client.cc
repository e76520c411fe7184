#include "worker/client/grpc_parameter_client.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/wire_version.h"
#include "proto/value_format.h"
#include "proto/wire_codec.h"

namespace oarlock {
namespace {

// A push of a sync round is answered when the slowest worker has pushed; dead
// connections are found by keepalive, not by this limit.
constexpr absl::Duration kRoundTimeout = absl::Hours(24);

// Keys in one answer of ListChanges: half a MiB. And answers that are asked for
// at a time.
constexpr uint32_t kMaxListedKeys = 65536;
constexpr int kMaxListings = 16;

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
      acknowledged_(connections->servers().size()),
      data_plane_(connections,
                  [this](ServerIndex server, const v1::ConnectResponse& answer) {
                    return OnReturn(server, answer);
                  }) {}

absl::Status GrpcParameterClient::CreateTable(ServerIndex server,
                                              const v1::TableConfig& config,
                                              absl::Duration give_up_after) {
  v1::CreateTableRequest request;
  *request.mutable_config() = config;
  v1::CreateTableResponse response;
  return connections_->CallWithRetries(
      server, give_up_after, [&](grpc::ClientContext* context) {
        return connections_->servers()[server.value()].admin->CreateTable(
            context, request, &response);
      });
}

absl::Status GrpcParameterClient::CreateTable(const v1::TableConfig& config) {
  for (uint32_t i = 0; i < connections_->servers().size(); ++i) {
    OARLOCK_RETURN_IF_ERROR(CreateTable(ServerIndex(i), config,
                                        connections_->patience()));
  }
  UseTable(config);
  return absl::OkStatus();
}

void GrpcParameterClient::UseTable(const v1::TableConfig& config) {
  absl::MutexLock lock(&mutex_);
  tables_.try_emplace(TableId(config.id()),
                      std::make_unique<const v1::TableConfig>(config));
}

absl::Status GrpcParameterClient::ListChanges(ServerIndex server,
                                              TableId table,
                                              ChangeMarks::Mark* mark,
                                              ChangedRows* changes) {
  v1::ListChangesRequest request;
  request.set_table(table.value());
  request.set_worker_index(worker_index_.value());
  request.set_max_keys(kMaxListedKeys);
  v1::ListChangesResponse response;
  // What is pushed meanwhile is told the next time, else this might not end.
  bool more = true;
  for (int i = 0; more && i < kMaxListings; ++i) {
    request.set_server_generation(mark->server_generation);
    request.set_position(mark->position);
    const absl::Status status = connections_->CallWithRetries(
        server, [&](grpc::ClientContext* context) {
          return connections_->servers()[server.value()].admin->ListChanges(
              context, request, &response);
        });
    if (absl::IsNotFound(status)) {
      // It came back as it was before the table was made; the next pull will
      // notice and make it (OnReturn).
      *mark = {};
      changes->any = true;
      return absl::OkStatus();
    }
    OARLOCK_RETURN_IF_ERROR(status);
    *mark = {response.server_generation(), response.position()};
    if (i == 0) {
      changes->versions[server.value()] = response.table_version();
    }
    changes->any = changes->any || response.forgotten();
    for (const uint64_t key : response.keys()) {
      changes->keys.push_back(Key{key});
    }
    more = response.more();
  }
  return absl::OkStatus();
}

absl::StatusOr<ChangedRows> GrpcParameterClient::ListChanges(
    TableId table, ChangeMarks* marks) {
  const uint32_t num_servers =
      static_cast<uint32_t>(connections_->servers().size());
  marks->servers.resize(num_servers);
  ChangedRows changes;
  changes.versions.resize(num_servers);
  for (uint32_t i = 0; i < num_servers; ++i) {
    OARLOCK_RETURN_IF_ERROR(ListChanges(ServerIndex(i), table,
                                        &marks->servers[i], &changes));
  }
  return changes;
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

absl::Status GrpcParameterClient::OnReturn(ServerIndex server,
                                           const v1::ConnectResponse& answer) {
  // It may have been restored from before they were made, or from nothing.
  std::vector<const v1::TableConfig*> tables;
  // Only workers make them.
  if (worker_generation_ != Generation(0)) {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, config] : tables_) tables.push_back(config.get());
  }
  for (const v1::TableConfig* config : tables) {
    OARLOCK_RETURN_IF_ERROR(
        CreateTable(server, *config, connections_->options().rpc_timeout));
  }
  OARLOCK_RETURN_IF_ERROR(connections_->TellReturn(server));
  if (answer.lossless()) {
    spdlog::info("{} came back with every acknowledged push",
                 connections_->Name(server));
    return absl::OkStatus();
  }
  const uint64_t lost = acknowledged_.CountFrom(server, answer.restored_cut());
  const std::string what = absl::StrCat(
      connections_->Name(server), " came back as it was at cut ",
      answer.restored_cut(), ", without ", lost,
      " pushes of this worker that it had acknowledged");
  if (lost > 0 && !connections_->options().accept_loss) {
    return absl::DataLossError(absl::StrCat(
        what, "; resume the job from its checkpoint, or run it with "
              "--durability log or --recovery accept_loss"));
  }
  acknowledged_.ForgetFrom(server, answer.restored_cut());
  spdlog::warn("{}", what);
  return absl::OkStatus();
}

v1::RequestHeader GrpcParameterClient::HeaderFor(
    Generation server_generation) const {
  v1::RequestHeader header;
  header.set_protocol_version(kProtocolVersion);
  header.set_job_hash(connections_->job_hash());
  header.set_routing_generation(connections_->partition_map().generation());
  header.set_server_generation(server_generation.value());
  header.set_worker_index(worker_index_.value());
  header.set_worker_generation(worker_generation_.value());
  return header;
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
      SplitGroups(connections_->partition_map(), keys,
                  sizeof(Key) + dim * ValueBytes(formats_.pull));
  if (versions != nullptr) {
    versions->assign(connections_->servers().size(), 0);
  }
  if (runs.empty()) {
    done(absl::OkStatus());
    return;
  }
  auto operation = std::make_shared<Operation>(runs.size(), std::move(done));
  for (const GroupRun& run : runs) {
    DataPlane::Call call;
    call.method = BatchMethod::kPullSparse;
    call.owner = memory.get();
    call.encode = [this, table, &keys, memory, run](Generation generation) {
      return EncodePullSparseRequest(
          HeaderFor(generation), table,
          absl::MakeConstSpan(keys.groups())
              .subspan(run.group_begin, run.group_end - run.group_begin),
          formats_.pull, /*with_statistics=*/false,
          Share(keys.keys().data() + run.key_begin, run.num_keys * sizeof(Key),
                memory));
    };
    float* const to = rows + run.key_begin * dim;
    call.on_answer = [this, operation, memory, to, run, dim,
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
    };
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
  const std::vector<BlockRun> runs = SplitBlocks(
      connections_->partition_map(), dense, ValueBytes(formats_.pull));
  auto operation = std::make_shared<Operation>(runs.size(), std::move(done));
  for (const BlockRun& run : runs) {
    DataPlane::Call call;
    call.method = BatchMethod::kPullDense;
    call.encode = [this, table, replica, run](Generation generation) {
      return FrameDensePull(HeaderFor(generation), table, run, *replica,
                            formats_);
    };
    call.on_answer = [this, operation, memory, replica, run,
                      &dense](absl::StatusOr<grpc::ByteBuffer> answer) {
      operation->OnMessageDone([&]() -> absl::Status {
        OARLOCK_RETURN_IF_ERROR(answer.status());
        OARLOCK_ASSIGN_OR_RETURN(DenseResponseView view,
                                 DecodeDenseResponse(*answer));
        newest_cut_.Observe(view.header.cut());
        return CopyBlocks(dense, run, view, replica);
      }());
    };
    data_plane_.Send(run.server, std::move(call),
                     connections_->options().rpc_timeout);
  }
}

std::vector<GrpcParameterClient::PushMessage> GrpcParameterClient::SplitPush(
    const PushRequest& push) const {
  const PartitionMap& map = connections_->partition_map();
  const size_t num_servers = connections_->servers().size();
  std::vector<PushMessage> messages;
  // Messages [begin, end) are those of one table.
  const auto end_table = [&](size_t begin, PushMessage empty) {
    std::vector<uint32_t> parts(num_servers, 0);
    for (size_t i = begin; i < messages.size(); ++i) {
      ++parts[messages[i].server().value()];
    }
    // A round ends when every server has heard from every worker, so a round's
    // push goes to all of them, with or without content.
    for (uint32_t s = 0; push.round != 0 && s < num_servers; ++s) {
      if (parts[s] > 0) continue;
      empty.groups.server = ServerIndex(s);
      empty.blocks.server = ServerIndex(s);
      messages.push_back(empty);
      parts[s] = 1;
    }
    for (size_t i = begin; i < messages.size(); ++i) {
      messages[i].table_parts = parts[messages[i].server().value()];
    }
  };
  for (const SparseGradients& sparse : push.sparse) {
    const size_t begin = messages.size();
    const uint32_t dim = TableOf(sparse.table).sparse().dim();
    PushMessage message;
    message.sparse = &sparse;
    for (const GroupRun& run :
         SplitGroups(map, *sparse.keys,
                     sizeof(Key) + dim * ValueBytes(formats_.push))) {
      messages.push_back(message);
      messages.back().groups = run;
    }
    end_table(begin, message);
  }
  for (const DenseGradients& dense : push.dense) {
    const size_t begin = messages.size();
    const size_t bytes_per_value = std::max(
        ValueBytes(formats_.push),
        dense.updated == nullptr ? 0 : ValueBytes(formats_.pull));
    PushMessage message;
    message.dense = &dense;
    for (const BlockRun& run : SplitBlocks(
             map, TableOf(dense.table).dense(), bytes_per_value)) {
      messages.push_back(message);
      messages.back().blocks = run;
    }
    end_table(begin, message);
  }
  return messages;
}

void GrpcParameterClient::Push(const PushRequest& request,
                               TableVersions* versions,
                               std::shared_ptr<const void> memory, Done done) {
  auto push = std::make_shared<PushUnderWay>();
  push->request = request;
  push->messages = SplitPush(push->request);
  push->versions = versions;
  push->memory = std::move(memory);
  if (versions != nullptr) {
    versions->assign(connections_->servers().size(), 0);
  }
  if (push->messages.empty()) {
    done(absl::OkStatus());
    return;
  }
  push->done = std::move(done);
  // Its name is not one of this worker's.
  if (push->request.completes.has_value()) return SendPush(push);
  {
    absl::MutexLock lock(&mutex_);
    if (!waiting_.empty() || !TakeSequence(push.get())) {
      waiting_.push_back(std::move(push));
      return;
    }
  }
  SendPush(push);
}

bool GrpcParameterClient::TakeSequence(PushUnderWay* push) {
  if (!unacknowledged_.empty() &&
      last_sequence_ + 1 > *unacknowledged_.begin() + kMaxSequencesAhead) {
    return false;
  }
  push->sequence = ++last_sequence_;
  unacknowledged_.insert(push->sequence);
  return true;
}

void GrpcParameterClient::OnPushDone(PushUnderWay* push, absl::Status status) {
  std::vector<std::shared_ptr<PushUnderWay>> next;
  if (!push->request.completes.has_value()) {
    absl::MutexLock lock(&mutex_);
    unacknowledged_.erase(push->sequence);
    while (!waiting_.empty() && TakeSequence(waiting_.front().get())) {
      next.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }
  std::exchange(push->done, nullptr)(std::move(status));
  for (const std::shared_ptr<PushUnderWay>& waiting : next) SendPush(waiting);
}

void GrpcParameterClient::SendPush(const std::shared_ptr<PushUnderWay>& push) {
  const size_t num_messages = push->messages.size();
  const size_t num_servers = connections_->servers().size();
  auto operation = std::make_shared<Operation>(
      num_messages, [this, push](absl::Status status) {
        OnPushDone(push.get(), std::move(status));
      });
  // What goes to a server goes together, rows first.
  std::vector<std::vector<DataPlane::Call>> calls(num_servers);
  for (size_t i = 0; i < num_messages; ++i) {
    const ServerIndex server = push->messages[i].server();
    std::vector<DataPlane::Call>& to = calls[server.value()];
    // The server's first message stands for all: loss is all or nothing.
    const bool counts = to.empty();
    to.push_back(CallOf(
        push, i, [this, push, operation, server, counts](absl::Status status) {
          if (status.ok() && counts) {
            acknowledged_.Add(server, push->request.round == 0
                                          ? push->request.cut
                                          : newest_cut_.value());
          }
          operation->OnMessageDone(std::move(status));
        }));
  }
  const absl::Duration timeout = push->request.round == 0
                                     ? connections_->options().rpc_timeout
                                     : kRoundTimeout;
  for (uint32_t server = 0; server < num_servers; ++server) {
    if (calls[server].empty()) continue;
    data_plane_.Send(ServerIndex(server), std::move(calls[server]), timeout);
  }
}

grpc::ByteBuffer GrpcParameterClient::FramePush(
    const PushUnderWay& push, size_t message_index,
    Generation server_generation) const {
  const PushMessage& message = push.messages[message_index];
  v1::RequestHeader header = HeaderFor(server_generation);
  header.set_sequence(push.sequence);
  if (const auto& name = push.request.completes; name.has_value()) {
    header.set_worker_index(name->worker.value());
    header.set_worker_generation(name->generation.value());
    header.set_sequence(name->sequence.value());
    header.set_completing_worker(worker_index_.value());
    header.set_completing_generation(worker_generation_.value());
  }
  header.set_cut(push.request.cut);
  header.set_part_index(static_cast<uint32_t>(message_index));
  header.set_part_count(static_cast<uint32_t>(push.messages.size()));
  header.set_table_part_count(message.table_parts);
  header.set_round(push.request.round);
  const auto add = [&](const std::vector<ExampleRange>& ranges, auto* to) {
    for (const ExampleRange& range : ranges) {
      v1::ExampleInterval* const interval = to->Add();
      interval->set_source(range.source);
      interval->set_begin(range.begin);
      interval->set_end(range.end);
      interval->set_epoch(push.request.epoch);
    }
  };
  add(push.request.examples, header.mutable_examples());
  add(push.request.dense_examples, header.mutable_dense_examples());
  if (message.sparse != nullptr) {
    return FrameSparsePush(header, *message.sparse,
                           TableOf(message.sparse->table).sparse().dim(),
                           message.groups, formats_, push.memory);
  }
  return FrameDensePush(header, *message.dense,
                        TableOf(message.dense->table).dense(), message.blocks,
                        formats_, push.memory);
}

DataPlane::Call GrpcParameterClient::CallOf(
    const std::shared_ptr<PushUnderWay>& push, size_t message_index,
    Done done) {
  const PushMessage& message = push->messages[message_index];
  DataPlane::Call call;
  call.encode = [this, push, message_index](Generation generation) {
    return FramePush(*push, message_index, generation);
  };
  if (message.sparse != nullptr) {
    call.method = BatchMethod::kPushSparse;
    // Versions are those of the first sparse table.
    TableVersions* const versions =
        message.sparse == push->request.sparse.data() ? push->versions
                                                      : nullptr;
    call.on_answer = [this, push, versions, server = message.groups.server,
                      done = std::move(done)](
                         const absl::StatusOr<grpc::ByteBuffer>& answer) mutable {
      done([&]() -> absl::Status {
        OARLOCK_RETURN_IF_ERROR(answer.status());
        OARLOCK_ASSIGN_OR_RETURN(const v1::PushResponse response,
                                 DecodePushResponse(*answer));
        newest_cut_.Observe(response.header().cut());
        if (versions != nullptr) {
          uint64_t& version = (*versions)[server.value()];
          version = std::max(version, response.header().table_version());
        }
        return absl::OkStatus();
      }());
    };
    return call;
  }
  call.method = BatchMethod::kPushDense;
  const v1::DenseTableConfig& dense = TableOf(message.dense->table).dense();
  DenseReplica* const updated = message.dense->updated;
  if (updated != nullptr) Resize(dense, updated);
  call.on_answer = [this, push, updated, &dense, run = message.blocks,
                    done = std::move(done)](
                       const absl::StatusOr<grpc::ByteBuffer>& answer) mutable {
    done([&]() -> absl::Status {
      OARLOCK_RETURN_IF_ERROR(answer.status());
      OARLOCK_ASSIGN_OR_RETURN(const DenseResponseView view,
                               DecodeDenseResponse(*answer));
      newest_cut_.Observe(view.header.cut());
      if (updated == nullptr) return absl::OkStatus();
      return CopyBlocks(dense, run, view, updated);
    }());
  };
  return call;
}

}  // namespace oarlock
