#include "client/grpc_parameter_client.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "client/grpc_parameter_operation.h"
#include "cluster/wire_version.h"
#include "wire/value_format.h"
#include "wire/wire_codec.h"

namespace oarlock::client {
namespace {

// Keys in one response of ListChanges: half a MiB. And responses that are asked
// for at a time.
constexpr uint32_t kMaxListedKeys = 65536;
constexpr int kMaxListings = 16;

}  // namespace

GrpcParameterClient::GrpcParameterClient(const ServerConnections* connections,
                                         WorkerIndex worker_index,
                                         Generation worker_generation,
                                         const ValueFormats& formats,
                                         CompletionThread* completions)
    : connections_(connections),
      worker_index_(worker_index),
      worker_generation_(worker_generation),
      formats_(formats),
      acknowledged_(connections->servers().size()),
      own_completions_(completions == nullptr
                           ? std::make_unique<CompletionThread>(connections)
                           : nullptr),
      data_plane_(
          connections,
          completions == nullptr ? own_completions_.get() : completions,
          [this](ServerIndex server, const v1::ConnectResponse& response) {
            return OnReturn(server, response);
          }) {}

absl::Status GrpcParameterClient::CreateTable(ServerIndex server,
                                              const v1::TableConfig& config,
                                              absl::Duration give_up_after) {
  v1::CreateTableRequest request;
  *request.mutable_config() = config;
  request.set_run(run_);
  v1::CreateTableResponse response;
  return connections_->CallWithRetries(
      server, give_up_after, [&](grpc::ClientContext* context) {
        return connections_->servers()[server.value()].admin->CreateTable(
            context, request, &response);
      });
}

absl::Status GrpcParameterClient::CreateTable(const v1::TableConfig& config) {
  for (uint32_t i = 0; i < connections_->servers().size(); ++i) {
    OARLOCK_RETURN_IF_ERROR(
        CreateTable(ServerIndex(i), config, connections_->retry_timeout()));
  }
  UseTable(config);
  return absl::OkStatus();
}

void GrpcParameterClient::UseTable(const v1::TableConfig& config) {
  absl::MutexLock lock(&mutex_);
  tables_.try_emplace(TableId(config.id()),
                      std::make_unique<const v1::TableConfig>(config));
}

absl::Status GrpcParameterClient::ListChanges(ServerIndex server, TableId table,
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
    OARLOCK_RETURN_IF_ERROR(
        ListChanges(ServerIndex(i), table, &marks->servers[i], &changes));
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

absl::Status GrpcParameterClient::OnReturn(
    ServerIndex server, const v1::ConnectResponse& response) {
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
  if (response.lossless()) {
    Log().info("{} came back with every acknowledged push",
               connections_->Name(server));
    return absl::OkStatus();
  }
  AcknowledgedPushes::Messages replayed;
  for (const v1::ReplayedPushes& of : response.replayed()) {
    if (of.worker_index() != worker_index_.value() ||
        of.worker_generation() != worker_generation_.value()) {
      continue;
    }
    for (const v1::ReplayedPushes::Push& push : of.pushes()) {
      replayed[push.sequence()] = push.messages();
    }
  }
  const uint64_t lost =
      acknowledged_.CountLost(server, response.restored_cut(), replayed);
  const std::string what = absl::StrCat(
      connections_->Name(server),
      response.log_may_lack_its_end()
          ? " came back after a loss of power with what its log has left"
          : absl::StrCat(" came back as it was at cut ",
                         response.restored_cut()),
      ", without ", lost, lost == 1 ? " push" : " pushes", " of worker ",
      worker_index_.value(), " that it had acknowledged");
  if (lost > 0 && !connections_->options().accept_loss) {
    return absl::DataLossError(absl::StrCat(
        what, "; resume the job from its checkpoint, or run it with ",
        response.log_may_lack_its_end() ? "--log_sync_interval_s 0"
                                        : "--durability log",
        " or --recovery accept_loss"));
  }
  if (!response.log_may_lack_its_end()) {
    acknowledged_.ForgetFrom(server, response.restored_cut());
  }
  if (lost > 0) {
    Log().warn("{}", what);
  } else {
    Log().info("{}", what);
  }
  return absl::OkStatus();
}

v1::RequestHeader GrpcParameterClient::HeaderFor(
    Generation server_generation) const {
  v1::RequestHeader header;
  header.set_protocol_version(cluster::kProtocolVersion);
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
  PullSparse(table, keys, rows, versions, memory, std::move(done), When::kNow);
}

void GrpcParameterClient::EnqueuePullSparse(TableId table, const KeyBatch& keys,
                                            float* rows,
                                            TableVersions* versions,
                                            std::shared_ptr<const void> memory,
                                            Done done) {
  PullSparse(table, keys, rows, versions, memory, std::move(done),
             When::kQueued);
}

void GrpcParameterClient::PullSparse(TableId table, const KeyBatch& keys,
                                     float* rows, TableVersions* versions,
                                     const std::shared_ptr<const void>& memory,
                                     Done done, When when) {
  const uint32_t dim = TableOf(table).sparse().dim();
  const std::vector<GroupRun> runs =
      SplitGroups(connections_->partition_map(), keys,
                  sizeof(Key) + dim * wire::ValueBytes(formats_.pull));
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
    call.method = wire::BatchMethod::kPullSparse;
    call.owner = memory.get();
    call.response_bytes = run.num_keys * dim * wire::ValueBytes(formats_.pull);
    call.encode = [this, table, &keys, memory, run](Generation generation) {
      return wire::EncodePullSparseRequest(
          HeaderFor(generation), table,
          absl::MakeConstSpan(keys.groups())
              .subspan(run.group_begin, run.group_end - run.group_begin),
          formats_.pull, /*with_statistics=*/false,
          Share(keys.keys().data() + run.key_begin, run.num_keys * sizeof(Key),
                memory));
    };
    float* const to = rows + run.key_begin * dim;
    call.on_response =
        [this, operation, memory = memory, to, run, dim,
         versions](absl::StatusOr<grpc::ByteBuffer> response) mutable {
          absl::Status status = [&]() -> absl::Status {
            OARLOCK_RETURN_IF_ERROR(response.status());
            OARLOCK_ASSIGN_OR_RETURN(wire::PullSparseResponseView view,
                                     wire::DecodePullSparseResponse(*response));
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
          }();
          memory.reset();
          operation->OnMessageDone(std::move(status));
        };
    if (when == When::kQueued) {
      data_plane_.Enqueue(run.server, std::move(call));
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
      connections_->partition_map(), dense, wire::ValueBytes(formats_.pull));
  auto operation = std::make_shared<Operation>(runs.size(), std::move(done));
  for (const BlockRun& run : runs) {
    DataPlane::Call call;
    call.method = wire::BatchMethod::kPullDense;
    call.owner = memory.get();
    call.response_bytes =
        run.num_values(dense) * wire::ValueBytes(formats_.pull);
    call.encode = [this, table, replica, run](Generation generation) {
      return FrameDensePull(HeaderFor(generation), table, run, *replica,
                            formats_);
    };
    call.on_response = [this, operation, memory, replica, run, &dense](
                           absl::StatusOr<grpc::ByteBuffer> response) mutable {
      absl::Status status = [&]() -> absl::Status {
        OARLOCK_RETURN_IF_ERROR(response.status());
        OARLOCK_ASSIGN_OR_RETURN(wire::DenseResponseView view,
                                 wire::DecodeDenseResponse(*response));
        newest_cut_.Observe(view.header.cut());
        return CopyBlocks(dense, run, view, replica);
      }();
      memory.reset();
      operation->OnMessageDone(std::move(status));
    };
    data_plane_.Send(run.server, std::move(call),
                     connections_->options().rpc_timeout);
  }
}

}  // namespace oarlock::client
