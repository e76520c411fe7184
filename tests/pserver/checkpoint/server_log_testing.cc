#include "tests/pserver/checkpoint/server_log_testing.h"

#include <grpcpp/support/slice.h>

#include <utility>

#include "storage/file_system.h"
#include "storage/push_log.h"
#include "storage/push_log_reader.h"

namespace oarlock::pserver {
namespace {

grpc::ByteBuffer SparseMessage(const v1::RequestHeader& header,
                               const SparseGradients& gradients) {
  const wire::PushSparseRequestView view = SparsePushOf(header, gradients);
  v1::PushSparseRequest request;
  *request.mutable_header() = header;
  request.set_table(view.table.value());
  for (const KeyGroup& group : view.groups) {
    request.add_partitions(group.partition.value());
    request.add_group_sizes(group.num_keys);
  }
  std::vector<Key> keys(view.num_keys);
  view.keys.CopyTo(0, keys.size() * sizeof(Key), keys.data());
  for (const Key key : keys) request.add_keys(static_cast<uint64_t>(key));
  request.mutable_values()->Resize(view.num_values, 0);
  view.values.CopyTo(0, view.num_values,
                     request.mutable_values()->mutable_data());
  return BufferOf(request);
}

}  // namespace

grpc::ByteBuffer BufferOf(const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  const grpc::Slice slices[] = {grpc::Slice(bytes.substr(0, bytes.size() / 3)),
                                grpc::Slice(bytes.substr(bytes.size() / 3))};
  return grpc::ByteBuffer(slices, 2);
}

Life::Life(const std::string& directory, const From& from)
    : registry_(cluster::PartitionMap::Even(1u << kTestPartitionBits, 1),
                ServerIndex(0), clock_) {
  gate_.Announce(from.cut);
  gate_.Finish(from.cut);
  if (from.table.has_value()) {
    const auto entry = registry_.CreateRestored(*from.table);
    EXPECT_TRUE(entry.ok()) << entry.status();
    (*entry)->aggregator->Restore(from.rounds, from.rounds);
  }
  auto log = ServerLog::Open({.directory = directory,
                              .bytes_max = from.bytes_max,
                              .replay = from.replay,
                              .boot_id = from.boot_id},
                             &registry_, &ledger_, &gate_, clock_);
  EXPECT_TRUE(log.ok()) << log.status();
  if (log.ok()) log_ = *std::move(log);
}

absl::Status Life::Push(const v1::RequestHeader& header,
                        const SparseGradients& gradients,
                        const std::string& name) {
  absl::Status written;
  const auto apply = [&](const absl::Status& status) {
    ASSERT_TRUE(status.ok()) << status;
    const absl::StatusOr<uint32_t> time = Write(header, gradients);
    written = time.status();
    if (time.ok()) Apply(header, gradients, *time, name);
  };
  if (entry().aggregator->HasRounds()) {
    apply(absl::OkStatus());
  } else {
    gate_.Pass(gate_.finished(), /*message_bytes=*/0, apply);
  }
  return written;
}

absl::StatusOr<uint32_t> Life::Write(const v1::RequestHeader& header,
                                     const SparseGradients& gradients) {
  return log_->AppendPush(ServerLogKind::kPushSparse,
                          entry().aggregator->HasRounds(),
                          SparseMessage(header, gradients));
}

void Life::Apply(const v1::RequestHeader& header,
                 const SparseGradients& gradients, uint32_t logical_time,
                 const std::string& name) {
  wire::PushSparseRequestView push = SparsePushOf(header, gradients);
  push.logical_time = logical_time;
  entry().aggregator->PushSparse(std::move(push), responses_.Expect(name));
}

std::vector<SeenRecord> RecordsOf(const std::string& directory) {
  std::vector<SeenRecord> records;
  const auto read = storage::ReadPushLog(
      storage::FileSystem::Real(), directory,
      [&](const storage::LogRecord& record) {
        records.push_back({static_cast<ServerLogKind>(record.kind), record.cut,
                           record.bytes.size()});
        return absl::OkStatus();
      });
  EXPECT_TRUE(read.ok()) << read.status();
  return records;
}

SparseGradients Gradients(uint64_t seed) {
  return RandomGradients(seed, /*num_keys=*/30, /*key_bound=*/200, kDim);
}

}  // namespace oarlock::pserver
