// GrpcParameterClient's pushes: their sequences, messages and responses.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/finite_push.h"
#include "client/grpc_parameter_client.h"
#include "client/grpc_parameter_operation.h"
#include "wire/value_format.h"
#include "wire/wire_codec.h"

namespace oarlock::client {
namespace {

// A push of a sync round is answered when the slowest worker has pushed; dead
// connections are found by keepalive, not by this limit.
constexpr absl::Duration kRoundTimeout = absl::Hours(24);

}  // namespace

std::vector<GrpcParameterClient::PushMessage> GrpcParameterClient::SplitPush(
    const PushRequest& push) const {
  const cluster::PartitionMap& map = connections_->partition_map();
  const size_t num_servers = connections_->servers().size();
  std::vector<PushMessage> messages;
  // Messages [begin, end) are those of one table.
  const auto end_table = [&](size_t begin, PushMessage empty) {
    std::vector<uint32_t> num_messages(num_servers, 0);
    for (size_t i = begin; i < messages.size(); ++i) {
      ++num_messages[messages[i].server().value()];
    }
    // A round ends when every server has heard from every worker, so a round's
    // push goes to all of them, with or without content.
    for (uint32_t s = 0; push.round != 0 && s < num_servers; ++s) {
      if (num_messages[s] > 0) continue;
      empty.groups.server = ServerIndex(s);
      empty.blocks.server = ServerIndex(s);
      messages.push_back(empty);
      num_messages[s] = 1;
    }
    for (size_t i = begin; i < messages.size(); ++i) {
      messages[i].table_messages = num_messages[messages[i].server().value()];
    }
  };
  for (const SparseGradients& sparse : push.sparse) {
    const size_t begin = messages.size();
    const uint32_t dim = TableOf(sparse.table).sparse().dim();
    PushMessage message;
    message.sparse = &sparse;
    for (const GroupRun& run :
         SplitGroups(map, *sparse.keys,
                     sizeof(Key) + dim * wire::ValueBytes(formats_.push))) {
      messages.push_back(message);
      messages.back().groups = run;
    }
    end_table(begin, message);
  }
  for (const DenseGradients& dense : push.dense) {
    const size_t begin = messages.size();
    const size_t bytes_per_value = std::max(
        wire::ValueBytes(formats_.push),
        dense.updated == nullptr ? 0 : wire::ValueBytes(formats_.pull));
    PushMessage message;
    message.dense = &dense;
    // A round's push that has nothing for the table.
    if (dense.gradients == nullptr) {
      end_table(begin, message);
      continue;
    }
    for (const BlockRun& run :
         SplitBlocks(map, TableOf(dense.table).dense(), bytes_per_value)) {
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
  absl::Status finite =
      CheckFinite(request, [this](TableId table) -> const v1::TableConfig& {
        return TableOf(table);
      });
  if (!finite.ok()) return done(std::move(finite));
  auto push = std::make_shared<PushUnderWay>();
  push->request = request;
  push->messages = SplitPush(push->request);
  push->routing_generation = connections_->partition_map().generation();
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
  absl::Status failure;
  {
    absl::MutexLock lock(&mutex_);
    if (!waiting_.empty() || !TakeSequence(push.get())) {
      failure = push_failure_;
      if (failure.ok()) {
        waiting_.push_back(std::move(push));
        return;
      }
    }
  }
  // What waits behind a push that failed would wait for ever.
  if (!failure.ok()) return std::exchange(push->done, nullptr)(failure);
  SendPush(push);
}

bool GrpcParameterClient::TakeSequence(PushUnderWay* push) {
  if (!unacknowledged_.empty() &&
      last_sequence_ + 1 > *unacknowledged_.begin() + kMaxSequencesAhead) {
    return false;
  }
  push->sequence = ++last_sequence_;
  unacknowledged_.insert(push->sequence);
  push->oldest_unanswered = *unacknowledged_.begin();
  return true;
}

void GrpcParameterClient::OnPushDone(PushUnderWay* push, absl::Status status) {
  std::vector<std::shared_ptr<PushUnderWay>> next;
  std::deque<std::shared_ptr<PushUnderWay>> failed;
  if (!push->request.completes.has_value()) {
    absl::MutexLock lock(&mutex_);
    if (status.ok()) {
      unacknowledged_.erase(push->sequence);
    } else {
      push_failure_.Update(status);
      failed.swap(waiting_);
    }
    while (!waiting_.empty() && TakeSequence(waiting_.front().get())) {
      next.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }
  for (const std::shared_ptr<PushUnderWay>& waiting : failed) {
    std::exchange(waiting->done, nullptr)(status);
  }
  push->memory.reset();
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
            acknowledged_.Add(server,
                              push->request.round == 0 ? push->request.cut
                                                       : newest_cut_.value(),
                              push->sequence, push->NumMessagesTo(server));
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
  header.set_routing_generation(push.routing_generation);
  header.set_sequence(push.sequence);
  header.set_oldest_unanswered(push.oldest_unanswered);
  if (const auto& name = push.request.completes; name.has_value()) {
    header.set_worker_index(name->worker.value());
    header.set_worker_generation(name->generation.value());
    header.set_sequence(name->sequence.value());
    header.set_completing_worker(worker_index_.value());
    header.set_completing_generation(worker_generation_.value());
  }
  header.set_cut(push.request.cut);
  header.set_message_index(static_cast<uint32_t>(message_index));
  header.set_message_count(static_cast<uint32_t>(push.messages.size()));
  header.set_table_message_count(message.table_messages);
  header.set_round(push.request.round);
  // Narrower floats may overflow where what was looked at did not.
  const TableId table =
      message.sparse != nullptr ? message.sparse->table : message.dense->table;
  header.set_values_are_finite(formats_.push == v1::FLOAT32 &&
                               !TableOf(table).allow_nonfinite());
  const auto add = [&](const std::vector<data::ExampleRange>& ranges,
                       auto* to) {
    for (const data::ExampleRange& range : ranges) {
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
    call.method = wire::BatchMethod::kPushSparse;
    // Versions are those of the first sparse table.
    TableVersions* const versions =
        message.sparse == push->request.sparse.data() ? push->versions
                                                      : nullptr;
    call.on_response =
        [this, push, versions, server = message.groups.server,
         done = std::move(done)](
            const absl::StatusOr<grpc::ByteBuffer>& response) mutable {
          done([&]() -> absl::Status {
            OARLOCK_RETURN_IF_ERROR(response.status());
            OARLOCK_ASSIGN_OR_RETURN(const v1::PushResponse push_response,
                                     wire::DecodePushResponse(*response));
            newest_cut_.Observe(push_response.header().cut());
            if (versions != nullptr) {
              uint64_t& version = (*versions)[server.value()];
              version =
                  std::max(version, push_response.header().table_version());
            }
            return absl::OkStatus();
          }());
        };
    return call;
  }
  call.method = wire::BatchMethod::kPushDense;
  const v1::DenseTableConfig& dense = TableOf(message.dense->table).dense();
  DenseReplica* const updated = message.dense->updated;
  if (updated != nullptr) {
    Resize(dense, updated);
    call.response_bytes =
        message.blocks.num_values(dense) * wire::ValueBytes(formats_.pull);
  }
  call.on_response =
      [this, push, updated, &dense, run = message.blocks,
       done = std::move(done)](
          const absl::StatusOr<grpc::ByteBuffer>& response) mutable {
        done([&]() -> absl::Status {
          OARLOCK_RETURN_IF_ERROR(response.status());
          OARLOCK_ASSIGN_OR_RETURN(const wire::DenseResponseView view,
                                   wire::DecodeDenseResponse(*response));
          newest_cut_.Observe(view.header.cut());
          if (updated == nullptr) return absl::OkStatus();
          return CopyBlocks(dense, run, view, updated);
        }());
      };
  return call;
}

}  // namespace oarlock::client
