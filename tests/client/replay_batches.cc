// Makes the pushes of a file with the C++ client, in sync mode as the only
// worker: what clients of other languages are compared with.
//
//   replay_batches ENDPOINTS JOB_ID TOKEN_FILE TABLES BATCHES ROWS
//
// TABLES has TableConfigs as text, each behind a line "---". BATCHES is
// little-endian and has words of 32 bits, each with what follows it:
//
//   1, a round:  keys, as below; [keys, dim] float32 gradients; [keys] float32
//                shows, [keys] float32 clicks; a 32-bit count, so many float32
//                of a dense gradient
//   2, the end of an epoch, counted from 0: keys
//   3, the end
//
// Keys are a 32-bit count and so many uint64, of which some may be the same.
// Each round goes to all tables: the sparse ones have one dim, the dense ones
// one size; statistics go to those with accessor CTR. At the end of an epoch
// the rows of its keys are pulled, when what was due is evicted. ROWS gets
// them, [keys, dim] float32 of each sparse table and [size] float32 of each
// dense one, in the order of TABLES.

#include <google/protobuf/text_format.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"
#include "tests/client/blocking_calls.h"

namespace oarlock::client {
namespace {

constexpr uint32_t kRound = 1;
constexpr uint32_t kEndOfEpoch = 2;
constexpr uint32_t kEnd = 3;

void CheckOk(const absl::Status& status) {
  if (!status.ok()) std::cerr << status << "\n";
  OARLOCK_CHECK(status.ok());
}

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  OARLOCK_CHECK(file && !bytes.str().empty());
  return bytes.str();
}

std::vector<v1::TableConfig> ReadTables(const char* path) {
  std::vector<v1::TableConfig> tables;
  const std::string text = ReadFile(path);
  // What stands before the first line "---" is a comment.
  const std::vector<std::string> pieces = absl::StrSplit(text, "\n---\n");
  for (size_t i = 1; i < pieces.size(); ++i) {
    OARLOCK_CHECK(google::protobuf::TextFormat::ParseFromString(
        pieces[i], &tables.emplace_back()));
  }
  return tables;
}

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}

  uint32_t Word() { return Array<uint32_t>(1)[0]; }

  std::vector<Key> Keys() {
    std::vector<Key> keys;
    for (const uint64_t key : Array<uint64_t>(Word())) keys.push_back(Key{key});
    return keys;
  }

  std::vector<float> Floats(size_t count) { return Array<float>(count); }

 private:
  template <typename T>
  std::vector<T> Array(size_t count) {
    static_assert(std::is_arithmetic_v<T>);
    OARLOCK_CHECK(count <= (bytes_.size() - position_) / sizeof(T));
    std::vector<T> values(count);
    if (count == 0) return values;
    std::memcpy(values.data(), bytes_.data() + position_, count * sizeof(T));
    position_ += count * sizeof(T);
    return values;
  }

  const std::string bytes_;
  size_t position_ = 0;
};

class Replay {
 public:
  Replay(JobClient* job, ParameterClient* client,
         std::vector<v1::TableConfig> tables)
      : job_(job), client_(client), tables_(std::move(tables)) {
    for (const v1::TableConfig& table : tables_) {
      CheckOk(client_->CreateTable(table));
      if (table.has_sparse()) dim_ = table.sparse().dim();
    }
  }

  void Run(Reader* batches, std::ostream* rows) {
    for (uint32_t epoch = 0;; ++epoch) {
      const absl::StatusOr<uint64_t> complete = job_->JoinRounds();
      CheckOk(complete.status());
      uint64_t round = *complete;
      uint32_t word = batches->Word();
      for (; word == kRound; word = batches->Word()) Push(++round, batches);
      CheckOk(job_->LeaveRounds());
      if (word == kEnd) return;
      OARLOCK_CHECK(word == kEndOfEpoch);
      CheckOk(job_->WaitForTrained(epoch));
      Pull(batches->Keys(), rows);
    }
  }

 private:
  struct Memory {
    KeyBatch keys;
    // By distinct key: the sums over the batch.
    std::vector<float> gradients;
    std::vector<float> shows;
    std::vector<float> clicks;
    std::vector<float> dense;
  };

  // Sums [keys, width] by distinct key, in the order of the batch.
  static std::vector<float> Sums(const KeyBatch& keys, size_t width,
                                 const std::vector<float>& values) {
    std::vector<float> sums(keys.keys().size() * width);
    for (size_t i = 0; i < values.size(); ++i) {
      sums[keys.row_of_key()[i / width] * width + i % width] += values[i];
    }
    return sums;
  }

  void Push(uint64_t round, Reader* batches) {
    auto memory = std::make_shared<Memory>();
    const std::vector<Key> keys = batches->Keys();
    memory->keys.Build(keys, client_->partition_bits());
    const auto sums = [&](size_t width) {
      return Sums(memory->keys, width, batches->Floats(keys.size() * width));
    };
    memory->gradients = sums(dim_);
    memory->shows = sums(1);
    memory->clicks = sums(1);
    memory->dense = batches->Floats(batches->Word());
    PushRequest push;
    push.round = round;
    for (const v1::TableConfig& table : tables_) {
      if (table.has_dense()) {
        push.dense.push_back(
            {.table = TableId(table.id()), .gradients = memory->dense.data()});
        continue;
      }
      SparseGradients gradients;
      gradients.table = TableId(table.id());
      gradients.keys = &memory->keys;
      gradients.gradients = memory->gradients.data();
      if (table.sparse().accessor() == v1::CTR) {
        gradients.shows = memory->shows.data();
        gradients.clicks = memory->clicks.data();
      }
      push.sparse.push_back(gradients);
    }
    CheckOk(PushAndWait(*client_, push, memory));
  }

  void Pull(const std::vector<Key>& keys, std::ostream* rows) {
    const auto write = [rows](const float* values, size_t count) {
      rows->write(reinterpret_cast<const char*>(values),
                  static_cast<std::streamsize>(count * sizeof(float)));
    };
    for (const v1::TableConfig& table : tables_) {
      if (table.has_dense()) {
        DenseReplica vector;
        CheckOk(PullAll(*client_, TableId(table.id()), &vector));
        write(vector.values.data(), vector.values.size());
        continue;
      }
      RowBatch pulled;
      CheckOk(PullRows(*client_, TableId(table.id()), keys, dim_, &pulled));
      for (const uint32_t row : pulled.keys.row_of_key()) {
        write(pulled.values.data() + row * dim_, dim_);
      }
    }
  }

  JobClient* const job_;
  ParameterClient* const client_;
  const std::vector<v1::TableConfig> tables_;
  size_t dim_ = 0;
};

int Main(int argc, char** argv) {
  OARLOCK_CHECK(argc == 7);
  ConnectionOptions options;
  options.endpoints = absl::StrSplit(argv[1], ',');
  options.job_id = argv[2];
  options.security.token_file = argv[3];
  options.client_name = "replay_batches";
  const auto connections = ServerConnections::Connect(options);
  CheckOk(connections.status());
  const auto job = GrpcJobClient::Register(connections->get(), WorkerIndex(0));
  CheckOk(job.status());
  GrpcParameterClient client(connections->get(), WorkerIndex(0),
                             (*job)->generation());
  client.SetRun((*job)->registration().run());
  Replay replay(job->get(), &client, ReadTables(argv[4]));
  Reader batches(ReadFile(argv[5]));
  std::ofstream rows(argv[6], std::ios::binary);
  replay.Run(&batches, &rows);
  rows.close();
  OARLOCK_CHECK(rows.good());
  CheckOk((*job)->Finish(absl::OkStatus()));
  return 0;
}

}  // namespace
}  // namespace oarlock::client

int main(int argc, char** argv) { return oarlock::client::Main(argc, argv); }
