// A worker dies between any two messages that it sends: whatever servers have
// of it, the others do what is missing and nothing else.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/status_macros.h"
#include "client/key_batch.h"
#include "client/messages/split_messages.h"
#include "cluster/wire_version.h"
#include "data/order/example_reader.h"
#include "data/parse/bad_lines.h"
#include "data/synthetic/criteo_generator.h"
#include "proto/v1/parameter.grpc.pb.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"
#include "tests/data/test_files.h"
#include "tests/integration/mini_cluster.h"
#include "tests/worker/counting_check.h"
#include "tests/worker/counting_model.h"
#include "tests/worker/skipped_leases.h"
#include "worker/config/data_options_of.h"
#include "worker/config/table_plan.h"
#include "worker/trainer.h"

namespace oarlock::worker {
namespace {

constexpr uint32_t kServers = 2;
constexpr uint64_t kRows = 6000;
constexpr int kBatch = 64;
constexpr size_t kSlots = 26;
// Six blocks, so that both servers have some.
constexpr size_t kParameters = 6 * kDenseBlockFloats;
// Each test skips one when a worker is gone.
constexpr absl::Duration kLease = absl::Seconds(20);

// Batches [begin, end) of what the dying worker has leased.
struct Batches {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// One push of the dying worker.
struct DyingPush {
  // The batch whose rows it carries; of one batch at most, but in geo mode.
  Batches rows = {};
  // Those whose dense gradients it carries.
  Batches dense = {};
  // By server: whether the messages of the rows, and of the dense gradients,
  // arrive.
  std::vector<bool> rows_arrive = {true, true};
  std::vector<bool> dense_arrive = {true, true};
};

class OneItem : public data::RangeSource {
 public:
  explicit OneItem(const data::DataRange& item) : item_(item) {}
  absl::StatusOr<std::optional<data::DataRange>> Next() override {
    return std::exchange(item_, std::nullopt);
  }
  void Done(const data::DataRange&) override {}

 private:
  std::optional<data::DataRange> item_;
};

class WorkerDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    data::GeneratorOptions options;
    options.rows = kRows;
    options.files = 1;
    options.seed = 11;
    options.out_dir = folder_.path();
    const auto report = data::GenerateCriteo(options);
    ASSERT_TRUE(report.ok()) << report.status();
    SetCounting(&config_);
    config_.add_train_files(folder_.Path("part-0"));
    config_.set_sparse_feature_dim(3000);
    config_.set_batch_size(kBatch);
    if (IsGeo()) {
      config_.set_mode("geo");
      config_.set_geo_steps(3);
    } else {
      config_.set_dense_interval_steps(3);
    }
    plan_ = *PlanTables(CountingModel(kSlots, kParameters).spec(), config_, 1);

    MiniClusterOptions cluster;
    cluster.num_servers = kServers;
    cluster.num_workers = 2;
    cluster.lease = kLease;
    cluster.server_clocks = {.wall = &clock_, .monotonic = &clock_};
    auto started = MiniCluster::Start(cluster);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }

  virtual bool IsGeo() const { return false; }

  // Worker 1 leases the first range, makes these pushes and dies; worker 0
  // trains.
  void Run(const std::vector<DyingPush>& pushes) {
    absl::Notification died;
    auto survivor = MiniWorker::Join(*cluster_, 0);
    ASSERT_TRUE(survivor.ok()) << survivor.status();
    auto dying = MiniWorker::Join(*cluster_, 1);
    ASSERT_TRUE(dying.ok()) << dying.status();
    absl::Status trained;
    std::thread training([&] {
      trained = Train(**survivor, [&] { died.WaitForNotification(); });
    });
    const absl::Status status = Die(**dying, pushes);
    EXPECT_TRUE(status.ok()) << status;
    dying->reset();
    EXPECT_TRUE(
        SkipUntilLost(*cluster_, &clock_, kLease, (*survivor)->job(), 1));
    died.Notify();
    training.join();
    EXPECT_TRUE(trained.ok()) << trained;
    const auto checked =
        CheckCounts(config_, CountingModel(kSlots, kParameters).spec(),
                    (*survivor)->parameters(), IsGeo() ? .5 : 1);
    EXPECT_TRUE(checked.ok()) << checked.status();
    EXPECT_TRUE((*survivor)->job().Finish(trained).ok());
  }

 private:
  absl::Status Train(MiniWorker& worker, std::function<void()> before_step) {
    OARLOCK_ASSIGN_OR_RETURN(
        const std::unique_ptr<Trainer> trainer,
        Trainer::Create(config_,
                        std::make_unique<CountingModel>(kSlots, kParameters,
                                                        std::move(before_step)),
                        &worker.parameters(), &worker.job()));
    return trainer->Run().status();
  }

  absl::Status Die(MiniWorker& worker, const std::vector<DyingPush>& pushes) {
    client::JobClient& job = worker.job();
    for (const std::string barrier : {"tables", "train/0", "train/0/defined"}) {
      OARLOCK_RETURN_IF_ERROR(job.Barrier(barrier));
    }
    // The other one reads its first range and waits.
    OARLOCK_ASSIGN_OR_RETURN(const client::Leases leases,
                             job.LeaseRanges("train/0", 1, {}));
    if (leases.items.size() != 1) {
      return absl::InternalError("nothing was leased to the dying worker");
    }
    leased_ = leases.items[0];
    OARLOCK_RETURN_IF_ERROR(ReadLeased());
    uint64_t sequence = 0;
    for (const DyingPush& push : pushes) {
      OARLOCK_RETURN_IF_ERROR(Push(worker, push, ++sequence));
    }
    return absl::OkStatus();
  }

  absl::Status ReadLeased() {
    OneItem ranges(leased_);
    data::BadLines bad_lines;
    data::BatchReader reader(DataOptionsOf(config_), {folder_.Path("part-0")},
                             &ranges, &bad_lines);
    for (;;) {
      data::Batch batch;
      OARLOCK_ASSIGN_OR_RETURN(const bool more, reader.Next(kBatch, &batch));
      if (!more) return absl::OkStatus();
      batches_.push_back(std::move(batch));
    }
  }

  template <typename Intervals>
  void SetExamples(const Batches& batches, Intervals* to) const {
    if (batches.begin == batches.end) return;
    v1::ExampleInterval* const interval = to->Add();
    interval->set_source(leased_.source);
    interval->set_begin(leased_.begin + batches.begin * kBatch);
    interval->set_end(leased_.begin + batches.end * kBatch);
  }

  // Sends those messages of the push that are to arrive.
  absl::Status Push(MiniWorker& worker, const DyingPush& push,
                    uint64_t sequence) {
    const cluster::PartitionMap& map = worker.connections().partition_map();
    std::map<uint64_t, uint32_t> counts;
    for (uint64_t b = push.rows.begin; b < push.rows.end; ++b) {
      for (const Key key : batches_[b].keys) {
        ++counts[static_cast<uint64_t>(key)];
      }
    }
    std::vector<Key> distinct;
    for (const auto& [key, count] : counts) distinct.push_back(Key{key});
    client::KeyBatch keys;
    keys.Build(distinct, map.partition_bits());
    const std::vector<client::GroupRun> rows =
        client::SplitGroups(map, keys, 8);
    std::vector<client::BlockRun> blocks;
    const v1::DenseTableConfig& dense = plan_.tables.back().dense();
    if (push.dense.begin < push.dense.end) {
      blocks = client::SplitBlocks(map, dense, 4);
    }

    v1::RequestHeader header;
    header.set_protocol_version(cluster::kProtocolVersion);
    header.set_job_hash(worker.connections().job_hash());
    header.set_worker_index(1);
    header.set_worker_generation(worker.job().generation().value());
    header.set_sequence(sequence);
    header.set_oldest_unanswered(sequence);
    header.set_routing_generation(1);
    header.set_message_count(
        static_cast<uint32_t>(rows.size() + blocks.size()));
    header.set_table_message_count(1);
    SetExamples(push.rows, header.mutable_examples());
    SetExamples(push.dense, header.mutable_dense_examples());
    uint32_t message = 0;
    for (const client::GroupRun& run : rows) {
      header.set_message_index(message++);
      if (!push.rows_arrive[run.server.value()]) continue;
      v1::PushSparseRequest request;
      *request.mutable_header() = header;
      request.set_table(plan_.sparse_tables[0].value());
      for (size_t g = run.group_begin; g < run.group_end; ++g) {
        request.add_partitions(keys.groups()[g].partition.value());
        request.add_group_sizes(keys.groups()[g].num_keys);
      }
      for (size_t k = run.key_begin; k < run.key_begin + run.num_keys; ++k) {
        const uint64_t key = static_cast<uint64_t>(keys.keys()[k]);
        request.add_keys(key);
        for (size_t d = 0; d < kCountingRowDim; ++d) {
          const auto count = static_cast<float>(counts.at(key));
          // Before less after, or a gradient at learning rate -1.
          request.add_values(IsGeo() ? -count : count);
        }
      }
      OARLOCK_RETURN_IF_ERROR(Send(worker, run.server, request));
    }
    for (const client::BlockRun& run : blocks) {
      header.set_message_index(message++);
      if (!push.dense_arrive[run.server.value()]) continue;
      v1::PushDenseRequest request;
      *request.mutable_header() = header;
      request.set_table(plan_.dense_table.value());
      for (const BlockIndex block : run.blocks()) {
        request.add_blocks(block.value());
      }
      const size_t floats = client::BlockOffset(dense, run.block_end) -
                            client::BlockOffset(dense, run.block_begin);
      const auto count =
          static_cast<float>((push.dense.end - push.dense.begin) * kBatch);
      // In geo mode a worker's half of the mean.
      request.mutable_values()->Resize(static_cast<int>(floats),
                                       IsGeo() ? -count / 2 : count);
      OARLOCK_RETURN_IF_ERROR(Send(worker, run.server, request));
    }
    return absl::OkStatus();
  }

  static absl::Status Send(MiniWorker& worker, ServerIndex server,
                           const v1::PushSparseRequest& request) {
    return Repeat([&](grpc::ClientContext* context) {
      v1::PushResponse response;
      return StubOf(worker, server)->PushSparse(context, request, &response);
    });
  }
  static absl::Status Send(MiniWorker& worker, ServerIndex server,
                           const v1::PushDenseRequest& request) {
    return Repeat([&](grpc::ClientContext* context) {
      v1::DenseResponse response;
      return StubOf(worker, server)->PushDense(context, request, &response);
    });
  }
  static std::unique_ptr<v1::ParameterService::Stub> StubOf(
      MiniWorker& worker, ServerIndex server) {
    return v1::ParameterService::NewStub(
        worker.connections().servers()[server.value()].channel);
  }
  // Until the server has heard of the worker.
  static absl::Status Repeat(
      const std::function<grpc::Status(grpc::ClientContext*)>& call) {
    grpc::Status status;
    Eventually([&] {
      grpc::ClientContext context;
      status = call(&context);
      return status.error_code() != grpc::UNAVAILABLE;
    });
    if (status.ok()) return absl::OkStatus();
    return absl::InternalError(status.error_message());
  }

  TestFolder folder_;
  v1::JobConfig config_;
  TablePlan plan_;
  SkippableClock clock_;
  std::unique_ptr<MiniCluster> cluster_;
  data::DataRange leased_;
  // Of the leased range, in the order of the file.
  std::vector<data::Batch> batches_;
};

TEST_F(WorkerDeathTest, NothingOfItArrived) { Run({}); }

TEST_F(WorkerDeathTest, RowsArrivedOnOneServer) {
  Run({{.rows = {0, 1}, .rows_arrive = {true, false}},
       {.rows = {1, 2}, .rows_arrive = {false, true}}});
}

TEST_F(WorkerDeathTest, RowsArrivedWhoseDenseGradientsNeverLeft) {
  Run({{.rows = {0, 1}}, {.rows = {1, 2}}});
}

TEST_F(WorkerDeathTest, DenseGradientsOvertookTheRowsOfTheirSteps) {
  Run({{.rows = {0, 1}, .rows_arrive = {false, false}},
       {.rows = {1, 2}},
       {.rows = {2, 3}, .dense = {0, 3}}});
}

TEST_F(WorkerDeathTest, ExchangeArrivedInPart) {
  Run({{.rows = {0, 1}},
       {.rows = {1, 2}},
       {.rows = {2, 3},
        .dense = {0, 3},
        .rows_arrive = {false, true},
        .dense_arrive = {true, false}}});
}

TEST_F(WorkerDeathTest, FlushArrivedInPart) {
  Run({{.rows = {0, 1}},
       {.rows = {1, 2}},
       {.dense = {0, 2}, .dense_arrive = {false, true}}});
}

TEST_F(WorkerDeathTest, AllThatItSentArrived) {
  Run({{.rows = {0, 1}},
       {.rows = {1, 2}},
       {.rows = {2, 3}, .dense = {0, 3}},
       {.rows = {3, 4}},
       {.dense = {3, 4}}});
}

// More than the 64 whose messages servers remember one by one.
TEST_F(WorkerDeathTest, PushesFullyAppliedLongAgoAndPartialOnesBehindThem) {
  std::vector<DyingPush> pushes;
  for (uint64_t b = 0; b < 30; ++b) {
    // One batch a push, and its dense gradients in another.
    pushes.push_back({.rows = {b, b + 1}});
    pushes.push_back({.dense = {b, b + 1}});
  }
  // Sequences that nothing is sent under.
  pushes.resize(pushes.size() + 10);
  pushes.push_back({.rows = {30, 31}, .rows_arrive = {true, false}});
  Run(pushes);
}

class GeoWorkerDeathTest : public WorkerDeathTest {
 protected:
  bool IsGeo() const override { return true; }
};

TEST_F(GeoWorkerDeathTest, NothingOfItArrived) { Run({}); }

TEST_F(GeoWorkerDeathTest, ExchangesArrived) {
  Run({{.rows = {0, 3}, .dense = {0, 3}}, {.rows = {3, 6}, .dense = {3, 6}}});
}

TEST_F(GeoWorkerDeathTest, ExchangeArrivedOnOneServer) {
  Run({{.rows = {0, 3},
        .dense = {0, 3},
        .rows_arrive = {true, false},
        .dense_arrive = {true, false}},
       {.rows = {3, 4},
        .dense = {3, 4},
        .rows_arrive = {false, true},
        .dense_arrive = {false, true}}});
}

TEST_F(GeoWorkerDeathTest, ExchangesArrivedInPart) {
  Run({{.rows = {0, 3}, .dense = {0, 3}, .dense_arrive = {false, false}},
       {.rows = {3, 6},
        .dense = {3, 6},
        .rows_arrive = {false, false},
        .dense_arrive = {true, false}}});
}

}  // namespace
}  // namespace oarlock::worker
