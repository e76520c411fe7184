// The limit of the data plane: gRPC as fast as it goes. A generic service of
// byte buffers on a completion queue, answers from static memory, no copy on
// either side, default HTTP/2 settings, a malloc that keeps its memory; two
// processes, one channel, one call in flight. The first four bytes of a
// request say how long the response is to be.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "bench/common/repetitions.h"

namespace oarlock_bench {
namespace {

constexpr size_t kCalls = 150;
constexpr int kOpenCalls = 64;
constexpr size_t kLargest = size_t{4} << 20;

const char* Payload() {
  static const std::string* const payload = new std::string(kLargest, 'x');
  return payload->data();
}

grpc::ByteBuffer StaticBytes(const char* bytes, size_t num_bytes) {
  const grpc::Slice slice(bytes, num_bytes, grpc::Slice::STATIC_SLICE);
  return grpc::ByteBuffer(&slice, 1);
}

uint32_t FirstWord(const grpc::ByteBuffer& buffer) {
  // The first slice may have fewer bytes.
  grpc::Slice bytes;
  uint32_t word = 0;
  if (!buffer.DumpToSingleSlice(&bytes).ok() || bytes.size() < sizeof(word)) {
    std::abort();
  }
  std::memcpy(&word, bytes.begin(), sizeof(word));
  return word;
}

struct ServedCall {
  enum { kRequested, kReading, kAnswering } state = kRequested;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

// Writes the port that it listens on to `port_pipe`.
void Serve(int port_pipe) {
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MINIMAL_STACK, 1);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (server == nullptr ||
      write(port_pipe, &port, sizeof(port)) != sizeof(port)) {
    std::abort();
  }
  const auto accept_one = [&] {
    auto* const call = new ServedCall();
    service.RequestCall(&call->context, &call->stream, queue.get(), queue.get(),
                        call);
  };
  for (int i = 0; i < kOpenCalls; ++i) accept_one();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    auto* const call = static_cast<ServedCall*>(tag);
    if (!ok || call->state == ServedCall::kAnswering) {
      delete call;
    } else if (call->state == ServedCall::kRequested) {
      call->state = ServedCall::kReading;
      accept_one();
      call->stream.Read(&call->request, call);
    } else {
      call->state = ServedCall::kAnswering;
      call->response = StaticBytes(Payload(), FirstWord(call->request));
      call->request.Clear();
      call->stream.WriteAndFinish(call->response, grpc::WriteOptions(),
                                  grpc::Status::OK, call);
    }
  }
}

class Client {
 public:
  explicit Client(int port) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_MINIMAL_STACK, 1);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(),
        arguments));
  }

  Figures Run(size_t request_bytes, size_t response_bytes) {
    std::string bytes(request_bytes, 'y');
    const auto wanted = static_cast<uint32_t>(response_bytes);
    std::memcpy(bytes.data(), &wanted, sizeof(wanted));
    std::vector<double> seconds;
    for (size_t call = 0; call < kCalls; ++call) {
      const double start = Now();
      grpc::ClientContext context;
      const auto response = stub_->PrepareUnaryCall(
          &context, "/bench.Echo/Call", StaticBytes(bytes.data(), bytes.size()),
          &queue_);
      grpc::ByteBuffer received;
      grpc::Status status;
      response->StartCall();
      response->Finish(&received, &status, this);
      void* tag = nullptr;
      bool ok = false;
      if (!queue_.Next(&tag, &ok) || !ok || !status.ok() ||
          received.Length() != response_bytes) {
        std::cerr << "echo failed: " << status.error_message() << std::endl;
        std::exit(1);
      }
      seconds.push_back(Now() - start);
    }
    return {{"p50_us", Median(seconds) * 1e6}};
  }

 private:
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
};

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  // With glibc's defaults each megabyte is mapped and faulted in anew.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 2047 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
  int port_pipe[2];
  if (pipe(port_pipe) != 0) return 1;
  // Before gRPC has started a thread.
  const pid_t server = fork();
  if (server < 0) return 1;
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Serve(port_pipe[1]);
    return 0;
  }
  int port = 0;
  if (read(port_pipe[0], &port, sizeof(port)) != sizeof(port)) return 1;
  Client client(port);
  Repetitions repetitions;
  constexpr size_t kRows = 13312 * 16 * 4, kKeys = 13312 * 8;
  repetitions.Add("dense pull", [&] { return client.Run(64, kRows); });
  repetitions.Add("pull", [&] { return client.Run(kKeys, kRows); });
  repetitions.Add("push", [&] { return client.Run(kKeys + kRows, 64); });
  const int result = repetitions.Run(argc, argv);
  kill(server, SIGKILL);
  return result;
}
