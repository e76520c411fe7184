// Makes the pushes of a file with the C++ client and prints what the tables
// hold then: what interop_client.py is compared with.
//
//   interop_peer ENDPOINTS SPARSE DENSE PUSHES
//
// SPARSE and DENSE are TableConfigs as text. PUSHES has lines "KEY FLOATS",
// "dense FLOATS", and "push" behind those of each push.

#include <google/protobuf/text_format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"
#include "tests/client/blocking_calls.h"

namespace oarlock {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  OARLOCK_CHECK(file && !text.str().empty());
  return text.str();
}

v1::TableConfig ReadTable(const char* path) {
  v1::TableConfig table;
  OARLOCK_CHECK(
      google::protobuf::TextFormat::ParseFromString(ReadFile(path), &table));
  return table;
}

void Show(const std::string& name, const float* values, size_t count) {
  std::cout << name;
  for (size_t i = 0; i < count; ++i) {
    char text[32];
    std::snprintf(text, sizeof text, " %.9g", values[i]);
    std::cout << text;
  }
  std::cout << "\n";
}

void CheckOk(const absl::Status& status) {
  if (!status.ok()) std::cerr << status << "\n";
  OARLOCK_CHECK(status.ok());
}

class Peer {
 public:
  Peer(client::ParameterClient* client, const v1::TableConfig& rows,
       const v1::TableConfig& vector)
      : client_(client),
        rows_(rows.id()),
        vector_(vector.id()),
        dim_(rows.sparse().dim()) {
    CheckOk(client_->CreateTable(rows));
    CheckOk(client_->CreateTable(vector));
  }

  void Replay(const std::string& pushes) {
    std::istringstream lines(pushes);
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string name;
      words >> name;
      std::vector<float> numbers;
      for (float number; words >> number;) numbers.push_back(number);
      if (name == "push") {
        Push();
      } else if (name == "dense") {
        dense_ = std::move(numbers);
      } else {
        sparse_[Key{std::stoull(name)}] = std::move(numbers);
      }
    }
  }

  void ShowTables() {
    client::RowBatch rows;
    const std::vector<Key> keys(keys_.begin(), keys_.end());
    CheckOk(client::PullRows(*client_, rows_, keys, dim_, &rows));
    for (size_t i = 0; i < keys.size(); ++i) {
      const size_t row = rows.keys.row_of_key()[i];
      Show(std::to_string(static_cast<uint64_t>(keys[i])),
           rows.values.data() + row * dim_, dim_);
    }
    client::DenseReplica vector;
    CheckOk(client::PullAll(*client_, vector_, &vector));
    Show("dense", vector.values.data(), vector.values.size());
  }

 private:
  struct Memory {
    client::RowBatch rows;
    std::vector<float> vector;
  };

  void Push() {
    auto memory = std::make_shared<Memory>();
    std::vector<Key> keys;
    for (const auto& [key, gradient] : sparse_) keys.push_back(key);
    keys_.insert(keys.begin(), keys.end());
    memory->rows.keys.Build(keys, client_->partition_bits());
    for (const Key key : memory->rows.keys.keys()) {
      const std::vector<float>& gradient = sparse_.at(key);
      memory->rows.values.insert(memory->rows.values.end(), gradient.begin(),
                                 gradient.end());
    }
    memory->vector = std::move(dense_);
    client::PushRequest push;
    push.sparse.push_back(
        {rows_, &memory->rows.keys, memory->rows.values.data()});
    push.dense.push_back({vector_, memory->vector.data(), 1});
    CheckOk(client::PushAndWait(*client_, push, memory));
    sparse_.clear();
  }

  client::ParameterClient* const client_;
  const TableId rows_;
  const TableId vector_;
  const size_t dim_;
  std::set<Key> keys_;
  // Of the push that is being read.
  std::map<Key, std::vector<float>> sparse_;
  std::vector<float> dense_;
};

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  using namespace oarlock;  // NOLINT: main is outside the namespace
  OARLOCK_CHECK(argc == 5);
  client::ConnectionOptions options;
  options.endpoints = absl::StrSplit(argv[1], ',');
  options.client_name = "interop_peer";
  const auto connections = client::ServerConnections::Connect(options);
  CheckOk(connections.status());
  const auto job =
      client::GrpcJobClient::Register(connections->get(), WorkerIndex(0));
  CheckOk(job.status());
  client::GrpcParameterClient client(connections->get(), WorkerIndex(0),
                                     (*job)->generation());
  Peer peer(&client, ReadTable(argv[2]), ReadTable(argv[3]));
  peer.Replay(ReadFile(argv[4]));
  peer.ShowTables();
  CheckOk((*job)->Finish(absl::OkStatus()));
  return 0;
}
