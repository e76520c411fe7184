// A server under calls of all its services whose contents were drawn at random.
// Nothing that one client says ends the server, makes it large, or keeps it
// from answering others. `--gtest_random_seed=N` draws other calls;
// OARLOCK_CALL_SECONDS makes each test go on for so long.

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "cluster/partition_map.h"
#include "tests/base/eventually.h"
#include "tests/base/test_folder.h"
#include "tests/pserver/mini_job.h"
#include "tests/pserver/random_messages.h"

namespace oarlock::pserver {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

constexpr uint64_t kMiB = uint64_t{1} << 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// What a sanitizer takes beside it, and keeps of what was freed.
constexpr uint64_t kSanitizer = 8;
#else
constexpr uint64_t kSanitizer = 1;
#endif
// Of a process with a server and its clients.
constexpr uint64_t kMaxProcessBytes = 1024 * kMiB * kSanitizer;
// What one call may add to it: its response on both sides, or the largest of
// these tables with two states.
constexpr uint64_t kMaxCallBytes = 320 * kMiB * kSanitizer;
constexpr uint32_t kNumWorkers = 2;
constexpr uint32_t kNumPartitions = 16;
// A dense one.
constexpr uint32_t kLargeTable = 4;

// Bytes: what the process has had at most since ForgetPeak.
uint64_t PeakBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "VmHWM:")) continue;
    return std::strtoull(line.c_str() + 6, nullptr, 10) << 10;
  }
  return 0;
}

void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// While it lives the process may open a few descriptors more than it has.
class FewDescriptors {
 public:
  FewDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int next = dup(0);
    close(next);
    const rlimit few = {static_cast<rlim_t>(next) + 40, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

std::unique_ptr<Message> New(const Descriptor* type) {
  return std::unique_ptr<Message>(
      MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// Pulls one row of a table that nobody changes.
v1::PullSparseRequest Canary() {
  v1::PullSparseRequest request;
  v1::RequestHeader* header = request.mutable_header();
  header->set_protocol_version(cluster::kProtocolVersion);
  header->set_job_hash(cluster::JobHash("default"));
  header->set_routing_generation(1);
  request.set_table(1);
  const Key key{7};
  request.add_keys(static_cast<uint64_t>(key));
  request.add_partitions(
      cluster::PartitionMap::Even(kNumPartitions, 1).PartitionOf(key).value());
  request.add_group_sizes(1);
  return request;
}

// A server, two workers of its job, and callers that say anything.
class RandomCallsTest : public testing::Test {
 protected:
  RandomCallsTest()
      : seed_(testing::UnitTest::GetInstance()->random_seed()),
        messages_(seed_) {
    std::cout << "seed " << seed_ << "\n";
    for (const char* name :
         {"oarlock.v1.ParameterService", "oarlock.v1.CoordinatorService",
          "oarlock.v1.ServerAdminService"}) {
      services_.push_back(
          google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
              name));
    }
    const char* const seconds = std::getenv("OARLOCK_CALL_SECONDS");
    if (seconds != nullptr)
      until_ = clock_.Now() + absl::Seconds(atoi(seconds));
  }

  // Until so many calls were made, and the time is over.
  bool GoesOn(int calls) const {
    return !HasFailure() && (calls_ < calls || clock_.Now() < until_);
  }

  void StartJob() {
    ++jobs_;
    folder_ = std::make_unique<TestFolder>();
    const bool keeps = messages_.OneIn(2);
    job_ = std::make_unique<MiniJob>(
        1, kNumWorkers, [this, keeps](ServerOptions* options) {
          options->num_partitions = kNumPartitions;
          options->num_threads = 2;
          options->max_held_bytes = 64 * kMiB;
          options->max_response_bytes = 64 * kMiB;
          options->tier_dir = folder_->Path("tier");
          if (!keeps) return;
          options->checkpoint_dir = folder_->Path("checkpoints");
          options->checkpoint_interval = absl::ZeroDuration();
          options->log_pushes = true;
        });
    generations_.clear();
    for (uint32_t worker = 0; worker < kNumWorkers; ++worker) {
      generations_.push_back(job_->client(0).Register(worker));
    }
    ended_ = std::async(std::launch::async,
                        [this] { return job_->server(0).Wait(); });
    ASSERT_TRUE(job_->client(0).CreateTable(v1::ASYNC).ok());
    for (uint32_t table = 2; table <= 4; ++table) {
      (void)CallAnything("/oarlock.v1.ServerAdminService/CreateTable",
                         Table(table));
    }
    TeachMessages();
  }

  void EndJob() {
    job_->server(0).Shutdown();
    ended_.wait();
    job_.reset();
    folder_.reset();
  }

  // The job is over, as a call may ask for.
  bool IsOver() const {
    return ended_.wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }

  void TeachMessages() {
    messages_.SetKnown("protocol_version", {cluster::kProtocolVersion});
    messages_.SetKnown("job_hash", {cluster::JobHash("default")});
    messages_.SetKnown("routing_generation", {1});
    messages_.SetKnown("server_generation",
                       {0, job_->server(0).generation().value()});
    messages_.SetKnown("worker_index", {0, 1});
    messages_.SetKnown("worker_generation", generations_);
    messages_.SetKnown("table", {1, 2, 3, 4});
    messages_.SetKnown("id", {1, 2, 3, 4, 5, 6, 7});
    messages_.SetKnown("message_index", {0});
    messages_.SetKnown("message_count", {1});
    messages_.SetKnown("table_message_count", {1});
    messages_.SetKnown("cut", {0, 1});
    messages_.SetKnown("round", {0, 1, 2});
    messages_.SetKnown("partitions", {0, 1, 15});
    messages_.SetKnown("group_sizes", {1, 2, 3});
    messages_.SetKnown("blocks", {0, 1});
    messages_.SetKnown("wait_ms", {0, 1, 100});
    messages_.SetKnown("epoch", {0, 1});
    messages_.SetKnownText("job_id", {"default"});
    messages_.SetKnownText("name", {"embedding", "table2", "table3", "b"});
    messages_.SetKnownText("table", {"embedding", "table2", "table3"});
    messages_.SetKnownText("phase_name", {"train/0", "train/1", "test/0"});
    messages_.SetKnownText("phase", {"train", "test"});
  }

  // A legal table of some kind.
  v1::CreateTableRequest Table(uint32_t id) {
    v1::CreateTableRequest request;
    v1::TableConfig* config = request.mutable_config();
    config->set_id(id);
    config->set_name(absl::StrCat("table", id));
    config->set_mode(messages_.One<v1::UpdateMode>({v1::ASYNC, v1::SYNC}));
    config->set_reduction(v1::SUM);
    config->mutable_optimizer()->set_learning_rate(.1f);
    config->mutable_optimizer()->mutable_sgd();
    if (id != kLargeTable && messages_.OneIn(2)) {
      config->mutable_sparse()->set_dim(messages_.One<uint32_t>({1, 8, 1024}));
      config->mutable_sparse()->set_accessor(v1::PLAIN);
      return request;
    }
    // More than a message takes, or more than a machine has.
    const uint64_t size =
        id != kLargeTable
            ? 100
            : messages_.One<uint64_t>({20 << 20, uint64_t{1} << 36});
    config->mutable_dense()->set_size(size);
    config->mutable_dense()->set_block_size(size == 100       ? 50
                                            : size < 1u << 30 ? 1 << 20
                                                              : 4 << 20);
    v1::DenseParameter* parameter = config->mutable_dense()->add_parameters();
    parameter->set_name("weight");
    parameter->add_shape(size);
    parameter->mutable_initializer()->set_constant(0);
    return request;
  }

  v1::RequestHeader Header() {
    v1::RequestHeader header = Canary().header();
    const uint32_t worker = messages_.Below(kNumWorkers);
    header.set_worker_index(worker);
    header.set_worker_generation(generations_[worker]);
    header.set_sequence(++sequence_ / 8 + 1);
    header.set_oldest_unanswered(header.sequence());
    header.set_message_count(1);
    header.set_table_message_count(1);
    header.set_round(messages_.Below(3));
    return header;
  }

  // Of some rows of a partition; of 20,000 at most.
  v1::PullSparseRequest Pull() {
    v1::PullSparseRequest request;
    *request.mutable_header() = Header();
    request.set_table(1 + messages_.Below(4));
    const uint32_t partition = messages_.Below(kNumPartitions);
    const auto map = cluster::PartitionMap::Even(kNumPartitions, 1);
    const uint64_t begin = messages_.Below(1 << 20);
    const uint64_t end =
        begin +
        messages_.Below(messages_.OneIn(10) ? kNumPartitions * 20000 : 1000);
    for (uint64_t i = begin; i < end; ++i) {
      const Key key{i};
      if (map.PartitionOf(key) == PartitionIndex(partition)) {
        request.add_keys(static_cast<uint64_t>(key));
      }
    }
    if (request.keys().empty()) return request;
    request.add_partitions(partition);
    request.add_group_sizes(request.keys().size());
    return request;
  }

  v1::PullDenseRequest PullDense() {
    v1::PullDenseRequest request;
    *request.mutable_header() = Header();
    request.set_table(messages_.OneIn(4) ? 2 : kLargeTable);
    const uint32_t blocks = messages_.One<uint32_t>({1, 2, 15, 16, 20});
    for (uint32_t i = 0; i < blocks; ++i) {
      request.add_blocks(i);
      request.add_known_versions(0);
    }
    return request;
  }

  v1::PushSparseRequest Push() {
    v1::PullSparseRequest pull = Pull();
    while (pull.keys().size() > 1000) pull = Pull();
    v1::PushSparseRequest request;
    *request.mutable_header() = pull.header();
    request.set_table(pull.table());
    *request.mutable_partitions() = pull.partitions();
    *request.mutable_group_sizes() = pull.group_sizes();
    *request.mutable_keys() = pull.keys();
    const int dim = messages_.One<int>({1, 2, 8});
    for (int i = 0; i < dim * pull.keys().size(); ++i) request.add_values(.5f);
    return request;
  }

  // Calls a method. A server makes no response that is larger than a message
  // may be.
  absl::Status CallAnything(const std::string& method, const Message& request) {
    grpc::GenericStub stub(job_->client(0).channel());
    grpc::ClientContext context;
    // Some wait for what never comes.
    context.set_deadline(GrpcDeadline(absl::Milliseconds(100)));
    const std::string bytes = request.SerializePartialAsString();
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer received;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &sent, &received,
                   [&](grpc::Status status) { done.set_value(status); });
    const absl::Status status = cluster::FromGrpc(done.get_future().get());
    EXPECT_FALSE(absl::StrContains(status.message(), "larger than max"))
        << method << ": " << status;
    return status;
  }

  // Says what makes sense but for a field or two, or nothing of sense.
  absl::Status CallAtRandom() {
    const ServiceDescriptor* const service = messages_.One(services_);
    const MethodDescriptor* const method = service->method(
        static_cast<int>(messages_.Below(service->method_count())));
    // They end a job, as they shall.
    if ((method->name() == "Drain" || method->name() == "FinishWorker") &&
        !messages_.OneIn(50)) {
      return absl::OkStatus();
    }
    ++calls_;
    std::unique_ptr<Message> request = New(method->input_type());
    if (messages_.OneIn(4) || !Sensible(request.get())) {
      messages_.Fill(request.get());
    } else {
      for (uint64_t left = messages_.Below(3); left > 0; --left) {
        messages_.Change(request.get());
      }
    }
    last_ = absl::StrCat("/", service->full_name(), "/", method->name());
    last_request_ = request->ShortDebugString().substr(0, 4000);
    return CallAnything(last_, *request);
  }

  // False: it makes none of this type.
  bool Sensible(Message* request) {
    if (auto* pull = dynamic_cast<v1::PullSparseRequest*>(request)) {
      *pull = Pull();
    } else if (auto* push = dynamic_cast<v1::PushSparseRequest*>(request)) {
      *push = Push();
    } else if (auto* dense = dynamic_cast<v1::PullDenseRequest*>(request)) {
      *dense = PullDense();
    } else if (auto* table = dynamic_cast<v1::CreateTableRequest*>(request)) {
      *table = Table(2 + messages_.Below(8));
    } else if (auto* batch = dynamic_cast<v1::BatchRequest*>(request)) {
      const bool dense = messages_.OneIn(4);
      for (uint64_t left = messages_.Below(dense ? 200 : 5); left > 0; --left) {
        v1::BatchCall* const call = batch->add_calls();
        if (dense) {
          *call->mutable_pull_dense() = PullDense();
        } else if (messages_.OneIn(2)) {
          *call->mutable_pull_sparse() = Pull();
        } else {
          *call->mutable_push_sparse() = Push();
        }
      }
    } else {
      return false;
    }
    return true;
  }

  // Messages of worker 0, of its round 1 or 2, by callers who do not wait.
  void PushAndLeave(int calls) {
    grpc::GenericStub stub(job_->client(0).channel());
    struct Call {
      grpc::ClientContext context;
      grpc::ByteBuffer request;
      grpc::ByteBuffer response;
    };
    std::vector<std::unique_ptr<Call>> open;
    absl::BlockingCounter left(calls);
    for (int i = 0; i < calls; ++i, ++calls_) {
      v1::PushSparseRequest push;
      *push.mutable_header() = Header();
      v1::RequestHeader& header = *push.mutable_header();
      header.set_worker_index(0);
      header.set_worker_generation(generations_[0]);
      header.set_round(1 + i % 2);
      header.set_sequence(header.round());
      header.set_oldest_unanswered(1);
      header.set_message_index(i / 2);
      header.set_message_count(calls / 2);
      header.set_table_message_count(calls / 2);
      push.set_table(9);
      auto call = std::make_unique<Call>();
      const grpc::Slice slice(push.SerializeAsString());
      call->request = grpc::ByteBuffer(&slice, 1);
      call->context.set_deadline(
          GrpcDeadline(absl::Milliseconds(messages_.Below(2000))));
      stub.UnaryCall(&call->context, "/oarlock.v1.ParameterService/PushSparse",
                     grpc::StubOptions(), &call->request, &call->response,
                     [&left](grpc::Status) { left.DecrementCount(); });
      open.push_back(std::move(call));
    }
    left.Wait();
  }

  void ComeAndGo(int connections) {
    std::vector<int> open;
    for (int i = 0; i < connections; ++i, ++calls_) {
      if (!open.empty() && messages_.OneIn(8)) {
        close(open.back());
        open.pop_back();
      }
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      if (fd < 0) continue;
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(job_->server(0).port());
      (void)connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
      open.push_back(fd);
    }
    EXPECT_GT(open.size(), 1);
    for (const int fd : open) close(fd);
  }

  // Somebody else gets in and is answered.
  void ExpectThatOthersAreAnswered() {
    const Client other(job_->options(0).server_endpoints[0]);
    const auto stub = v1::ParameterService::NewStub(other.channel());
    v1::PullSparseResponse response;
    grpc::Status status;
    // Responses to others may still be on the way.
    Eventually([&] {
      grpc::ClientContext context;
      context.set_deadline(GrpcDeadline(absl::Seconds(20)));
      context.set_wait_for_ready(true);
      status = stub->PullSparse(&context, Canary(), &response);
      return status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED;
    });
    EXPECT_TRUE(status.ok())
        << status.error_message() << "; the last call: " << last_ << " "
        << last_request_;
    if (status.ok()) {
      EXPECT_EQ(response.values_size(), 2);
    }
  }

  const uint64_t seed_;
  RandomMessages messages_;
  const SkippableClock clock_;
  absl::Time until_ = absl::InfinitePast();
  int jobs_ = 0;
  int calls_ = 0;
  std::vector<const ServiceDescriptor*> services_;
  std::unique_ptr<TestFolder> folder_;
  std::unique_ptr<MiniJob> job_;
  std::vector<uint64_t> generations_;
  std::future<absl::Status> ended_;
  uint64_t sequence_ = 0;
  std::string last_;
  std::string last_request_;
};

TEST_F(RandomCallsTest, NoneMakesAServerLargeOrEndsIt) {
  constexpr int kCalls = 3000;
  constexpr int kCallsOfJob = 400;
  int answered = 0;
  uint64_t most = 0;
  while (GoesOn(kCalls)) {
    StartJob();
    ForgetPeak();
    uint64_t before = PeakBytes();
    for (int i = 0; i < kCallsOfJob && !IsOver() && !HasFailure(); ++i) {
      answered += CallAtRandom().ok();
      // The kernel's figure is exact to some pages.
      const uint64_t after = std::max(before, PeakBytes());
      most = std::max(most, after - before);
      EXPECT_LE(after - before, kMaxCallBytes) << last_ << " " << last_request_;
      EXPECT_LE(after, kMaxProcessBytes) << last_ << " " << last_request_;
      before = after;
    }
    ExpectThatOthersAreAnswered();
    EndJob();
  }
  std::cout << jobs_ << " jobs, " << calls_ << " calls, " << answered
            << " of them OK; one added at most " << most / kMiB << " MiB\n";
  // Else nothing was tried.
  EXPECT_GT(answered, calls_ / 20);
}

// Workers push to rounds that are never complete, and their callers go away.
TEST_F(RandomCallsTest, PushesThatWaitLeaveRoomForOthers) {
  constexpr int kCalls = 6000;
  while (GoesOn(kCalls)) {
    StartJob();
    v1::CreateTableRequest table = Table(9);
    table.mutable_config()->set_mode(v1::SYNC);
    table.mutable_config()->mutable_sparse()->set_dim(1);
    table.mutable_config()->mutable_sparse()->set_accessor(v1::PLAIN);
    v1::CreateTableResponse created;
    ASSERT_TRUE(
        job_->client(0)
            .Admin(&v1::ServerAdminService::Stub::CreateTable, table, &created)
            .ok());
    for (uint32_t worker = 0; worker < kNumWorkers; ++worker) {
      ASSERT_TRUE(job_->client(0)
                      .SetRoundMembership(worker, generations_[worker],
                                          /*joins=*/true)
                      .ok());
    }
    PushAndLeave(kCalls);
    ExpectThatOthersAreAnswered();
    EndJob();
  }
}

// More connections come than the server has descriptors for.
TEST_F(RandomCallsTest, ConnectionsThatComeAndGoLeaveRoomForOthers) {
  constexpr int kConnections = 200;
  while (GoesOn(kConnections)) {
    StartJob();
    {
      const FewDescriptors few;
      ComeAndGo(kConnections);
    }
    ExpectThatOthersAreAnswered();
    EndJob();
  }
}

}  // namespace
}  // namespace oarlock::pserver
