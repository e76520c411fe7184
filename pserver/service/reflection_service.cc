#include "pserver/service/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "cluster/retry.h"
#include "cluster/security.h"

namespace oarlock::pserver {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

namespace {

// Adds the file and all that it imports, each once.
void AddWithImports(const FileDescriptor* file,
                    std::set<const FileDescriptor*>* added,
                    FileDescriptorResponse* response) {
  if (!added->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) {
    AddWithImports(file->dependency(i), added, response);
  }
}

void SetFile(const FileDescriptor* file, const std::string& wanted,
             ServerReflectionResponse* response) {
  if (file == nullptr) {
    response->mutable_error_response()->set_error_code(grpc::NOT_FOUND);
    response->mutable_error_response()->set_error_message(
        absl::StrCat("this server does not know '", wanted, "'"));
    return;
  }
  std::set<const FileDescriptor*> added;
  AddWithImports(file, &added, response->mutable_file_descriptor_response());
}

}  // namespace

// One stream: reads a request, writes its response, and so on until the client
// is done. It waits in its queue for one thing at a time.
class ReflectionService::Conversation : public QueueTag {
 public:
  static void Accept(ReflectionService* service,
                     grpc::ServerCompletionQueue* queue,
                     const std::shared_ptr<QueueGate>& gate) {
    gate->WhileOpen([&] {
      // Deletes itself when the stream has ended.
      auto* const call = new Conversation(service, queue, gate);
      service->service_.RequestServerReflectionInfo(
          &call->context_, &call->stream_, queue, queue, call);
    });
  }

  ~Conversation() override {
    if (counts_) service_->num_streams_.fetch_sub(1);
  }

  void OnEvent(bool ok) override {
    bool waits = false;
    // Nothing may touch this after it was handed to the queue.
    const std::shared_ptr<QueueGate> gate = gate_;
    std::unique_ptr<Conversation> self(this);
    if (state_ == State::kAccepting && ok) Accept(service_, queue_, gate);
    gate->WhileOpen([&] { waits = Proceed(ok); });
    if (waits) self.release();
  }

 private:
  // What it waits for.
  enum class State { kAccepting, kReading, kWriting, kFinishing };

  Conversation(ReflectionService* service, grpc::ServerCompletionQueue* queue,
               std::shared_ptr<QueueGate> gate)
      : service_(service),
        queue_(queue),
        gate_(std::move(gate)),
        stream_(&context_) {}

  // Starts the next operation; false when there is none.
  bool Proceed(bool ok) {
    if (state_ == State::kFinishing) return false;
    if (state_ == State::kAccepting && !ok) return false;
    if (state_ == State::kAccepting) {
      counts_ = true;
      const int before = service_->num_streams_.fetch_add(1);
      absl::Status status = cluster::CheckToken(context_, service_->token_);
      if (status.ok() && before >= kMaxStreams) {
        status = absl::ResourceExhaustedError(absl::StrCat(
            before, " streams are open; legal is up to ", kMaxStreams));
      }
      if (!status.ok()) {
        state_ = State::kFinishing;
        stream_.Finish(cluster::ToGrpc(status), this);
        return true;
      }
    }
    if (!ok) {
      // The client has no more requests, or has gone.
      state_ = State::kFinishing;
      stream_.Finish(grpc::Status::OK, this);
    } else if (state_ == State::kReading) {
      state_ = State::kWriting;
      stream_.Write(service_->Answer(request_), this);
    } else {
      state_ = State::kReading;
      stream_.Read(&request_, this);
    }
    return true;
  }

  ReflectionService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  const std::shared_ptr<QueueGate> gate_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<ServerReflectionResponse,
                                ServerReflectionRequest>
      stream_;
  ServerReflectionRequest request_;
  State state_ = State::kAccepting;
  // It is one of the open streams.
  bool counts_ = false;
};

CallQueues::Acceptor ReflectionService::Acceptor(
    std::shared_ptr<QueueGate> gate) {
  return [this, gate = std::move(gate)](grpc::ServerCompletionQueue* queue) {
    Conversation::Accept(this, queue, gate);
  };
}

ServerReflectionResponse ReflectionService::Answer(
    const ServerReflectionRequest& request) const {
  const DescriptorPool* const pool = DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(pool->FindFileByName(request.file_by_filename()),
              request.file_by_filename(), &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool->FindFileContainingSymbol(request.file_containing_symbol()),
              request.file_containing_symbol(), &response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services_) {
        response.mutable_list_services_response()->add_service()->set_name(
            name);
      }
      break;
    // Oarlock's messages are proto3: nothing can be extended.
    case ServerReflectionRequest::kFileContainingExtension:
      SetFile(nullptr, request.file_containing_extension().containing_type(),
              &response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      response.mutable_all_extension_numbers_response()->set_base_type_name(
          request.all_extension_numbers_of_type());
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(grpc::INVALID_ARGUMENT);
      response.mutable_error_response()->set_error_message(
          "the request asks for nothing; set one of message_request");
      break;
  }
  return response;
}

}  // namespace oarlock::pserver
