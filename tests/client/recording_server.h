// A server that keeps what it is sent and answers as a test says.

#ifndef OARLOCK_TESTS_CLIENT_RECORDING_SERVER_H_
#define OARLOCK_TESTS_CLIENT_RECORDING_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "cluster/partition_map.h"
#include "cluster/retry.h"
#include "proto/v1/parameter.grpc.pb.h"
#include "proto/v1/server_admin_service.grpc.pb.h"

namespace oarlock::client {

// Stands for server 0 of 1: rows are zeros of `dim` floats, pushes are
// swallowed. Thread-safe.
class RecordingServer {
 public:
  RecordingServer(uint32_t num_partitions, uint32_t dim)
      : map_(cluster::PartitionMap::Even(num_partitions, 1)),
        admin_(this),
        parameters_(this),
        dim_(dim) {
    grpc::ServerBuilder builder;
    cluster::ApplyServerArguments(&builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&admin_);
    builder.RegisterService(&parameters_);
    server_ = builder.BuildAndStart();
  }
  ~RecordingServer() {
    Answer(grpc::Status::OK);
    server_->Shutdown();
  }

  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

  // The next `count` calls of the data plane fail so.
  void FailNext(int count, grpc::StatusCode code) {
    absl::MutexLock lock(&mutex_);
    failures_ = count;
    failure_ = grpc::Status(code, "as the test says");
  }
  // Calls of the data plane wait until Answer().
  void Hold() {
    absl::MutexLock lock(&mutex_);
    holding_ = true;
  }
  void Answer(grpc::Status status) {
    absl::MutexLock lock(&mutex_);
    holding_ = false;
    held_status_ = status;
  }
  // Waits until `count` calls have come, at most a minute.
  bool AwaitCalls(int count) {
    absl::MutexLock lock(&mutex_);
    const auto come = [&] { return calls_ >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&come), absl::Minutes(1));
  }

  // What was asked, failed calls included, in the order of arrival.
  std::vector<v1::PullSparseRequest> pulls() const {
    absl::MutexLock lock(&mutex_);
    return pulls_;
  }
  std::vector<v1::PushSparseRequest> sparse_pushes() const {
    absl::MutexLock lock(&mutex_);
    return sparse_pushes_;
  }
  std::vector<v1::PushDenseRequest> dense_pushes() const {
    absl::MutexLock lock(&mutex_);
    return dense_pushes_;
  }

 private:
  class Admin final : public v1::ServerAdminService::Service {
   public:
    explicit Admin(RecordingServer* server) : server_(server) {}
    grpc::Status Connect(grpc::ServerContext*, const v1::ConnectRequest*,
                         v1::ConnectResponse* response) override {
      response->set_server_generation(77);
      response->set_num_workers(1);
      *response->mutable_partition_map() = server_->map_.ToProto();
      return grpc::Status::OK;
    }
    grpc::Status CreateTable(grpc::ServerContext*,
                             const v1::CreateTableRequest*,
                             v1::CreateTableResponse*) override {
      return grpc::Status::OK;
    }

   private:
    RecordingServer* const server_;
  };

  class Parameters final : public v1::ParameterService::Service {
   public:
    explicit Parameters(RecordingServer* server) : server_(server) {}
    grpc::Status PullSparse(grpc::ServerContext*,
                            const v1::PullSparseRequest* request,
                            v1::PullSparseResponse* response) override {
      response->set_dim(server_->dim_);
      response->mutable_values()->Resize(
          request->keys_size() * static_cast<int>(server_->dim_), 0);
      return server_->Record(&server_->pulls_, *request);
    }
    grpc::Status PushSparse(grpc::ServerContext*,
                            const v1::PushSparseRequest* request,
                            v1::PushResponse*) override {
      return server_->Record(&server_->sparse_pushes_, *request);
    }
    grpc::Status PushDense(grpc::ServerContext*,
                           const v1::PushDenseRequest* request,
                           v1::DenseResponse*) override {
      return server_->Record(&server_->dense_pushes_, *request);
    }
    grpc::Status Batch(grpc::ServerContext* context,
                       const v1::BatchRequest* request,
                       v1::BatchResponse* response) override {
      for (const v1::BatchCall& call : request->calls()) {
        v1::PullSparseResponse pulled;
        v1::PushResponse pushed;
        v1::DenseResponse dense;
        grpc::Status status;
        std::string encoded;
        if (call.has_pull_sparse()) {
          status = PullSparse(context, &call.pull_sparse(), &pulled);
          encoded = pulled.SerializeAsString();
        } else if (call.has_push_sparse()) {
          status = PushSparse(context, &call.push_sparse(), &pushed);
          encoded = pushed.SerializeAsString();
        } else {
          status = PushDense(context, &call.push_dense(), &dense);
          encoded = dense.SerializeAsString();
        }
        v1::BatchResult* const entry = response->add_results();
        entry->set_status_code(status.error_code());
        entry->set_status_message(status.error_message());
        if (status.ok()) entry->set_response(encoded);
      }
      return grpc::Status::OK;
    }

   private:
    RecordingServer* const server_;
  };

  template <typename Request>
  grpc::Status Record(std::vector<Request>* requests, const Request& request) {
    absl::MutexLock lock(&mutex_);
    requests->push_back(request);
    ++calls_;
    if (holding_) {
      mutex_.Await(absl::Condition(
          +[](bool* holding) { return !*holding; }, &holding_));
      return held_status_;
    }
    if (failures_ > 0) {
      --failures_;
      return failure_;
    }
    return grpc::Status::OK;
  }

  const cluster::PartitionMap map_;
  Admin admin_;
  Parameters parameters_;
  const uint32_t dim_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;

  mutable absl::Mutex mutex_;
  int calls_ = 0;
  int failures_ = 0;
  grpc::Status failure_;
  bool holding_ = false;
  grpc::Status held_status_;
  std::vector<v1::PullSparseRequest> pulls_;
  std::vector<v1::PushSparseRequest> sparse_pushes_;
  std::vector<v1::PushDenseRequest> dense_pushes_;
};

}  // namespace oarlock::client

#endif  // OARLOCK_TESTS_CLIENT_RECORDING_SERVER_H_
