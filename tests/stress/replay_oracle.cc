// Workers whose servers are killed, and a model of every row and parameter they
// push to: any update rule, optimizer state, statistics and dense tables, where
// counting_worker.cc counts.
//
//   replay_oracle ENDPOINTS SEED STOP_FILE ENDED_FILE CHECKPOINT_DIR
//
// Three workers in one process, with values of 32 and of both kinds of 16 bits,
// each with clients of its own, push from several threads at once
// (oracle_thread.h) until STOP_FILE is there, while one checkpoint after the
// other is made. What was acknowledged is applied to the model, once and in
// order, and from time to time rows are pulled and must be the model's. At the
// end all are, and a last checkpoint is made; then the workers leave, and when
// ENDED_FILE says that the servers have ended, that checkpoint must be the
// model's, too.
//
// Prints one line, and one for each of the first differences; exit code 0 when
// there is none, 1 else.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"
#include "optim/rules.h"
#include "proto/v1/table.pb.h"
#include "tests/stress/compare_checkpoint.h"
#include "tests/stress/oracle_tables.h"
#include "tests/stress/oracle_thread.h"
#include "worker/cut/cut_marker.h"
#include "worker/dense/dense_copy_pool.h"

namespace oarlock {
namespace {

constexpr v1::ValueFormat kFormats[] = {v1::FLOAT32, v1::BFLOAT16, v1::FLOAT16};
constexpr uint32_t kWorkers = std::size(kFormats);
// Of a worker: pushes that it has under way.
constexpr uint32_t kThreads = 4;
constexpr uint32_t kAllThreads = kWorkers * kThreads;
// A third of the rows of the table with two tiers, in 32 partitions.
constexpr uint64_t kColdMemoryBytes = 3 << 20;
// All servers come back within this.
constexpr absl::Duration kRestartTimeout = absl::Seconds(60);
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
// How long servers may take to end after the last push.
constexpr absl::Duration kServersEnd = absl::Minutes(2);
// From one checkpoint to the next.
constexpr absl::Duration kCheckpointPause = absl::Milliseconds(100);

struct Options {
  std::vector<std::string> endpoints;
  uint64_t seed = 0;
  std::string stop_file;
  std::string ended_file;
  std::string checkpoint_dir;
};

// The first failure of any thread, after which all stop.
class Failure {
 public:
  void Record(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
  }
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// A worker of the job: its clients, and the permits of its threads.
class OracleWorker {
 public:
  static absl::StatusOr<std::unique_ptr<OracleWorker>> Start(
      const std::vector<std::string>& endpoints, uint32_t index) {
    client::ConnectionOptions options;
    options.endpoints = endpoints;
    options.client_name = absl::StrCat("oracle's worker ", index);
    options.server_restart_timeout = kRestartTimeout;
    auto worker = std::unique_ptr<OracleWorker>(new OracleWorker(index));
    OARLOCK_ASSIGN_OR_RETURN(worker->connections_,
                             client::ServerConnections::Connect(options));
    OARLOCK_ASSIGN_OR_RETURN(
        worker->job_, client::GrpcJobClient::Register(
                          worker->connections_.get(), WorkerIndex(index)));
    worker->client_ = std::make_unique<client::GrpcParameterClient>(
        worker->connections_.get(), WorkerIndex(index),
        worker->job_->generation(),
        client::ValueFormats{.pull = kFormats[index], .push = kFormats[index]});
    worker->marker_ = std::make_unique<worker::CutMarker>(
        worker->client_.get(), worker->job_.get(),
        worker::CutMarker::Numbering::kByCut, worker->connections_->clock());
    return worker;
  }

  absl::Status CreateTables(const std::vector<v1::TableConfig>& tables) {
    for (const v1::TableConfig& table : tables) {
      OARLOCK_RETURN_IF_ERROR(client_->CreateTable(table));
    }
    return absl::OkStatus();
  }

  absl::Status BeginEpoch() {
    v1::OptimizerConfig none;
    none.mutable_sgd();
    OARLOCK_ASSIGN_OR_RETURN(const optim::UpdateRule rule,
                             optim::UpdateRule::Create(none));
    std::vector<std::unique_ptr<worker::DenseCopy>> copies;
    for (uint32_t i = 0; i < kThreads; ++i) {
      copies.push_back(
          std::make_unique<worker::DenseCopy>(rule, client::DenseReplica(), 1));
    }
    copies_ =
        std::make_unique<worker::DenseCopyPool>(std::move(copies), kThreads);
    // Threads push dense gradients themselves, copies hold none.
    marker_->BeginEpoch(copies_.get(), [](worker::DenseCopy*, uint64_t,
                                          client::ParameterClient::Done done) {
      done(absl::OkStatus());
    });
    return absl::OkStatus();
  }

  // Waits until the push is acknowledged. For any thread.
  absl::Status Push(const std::shared_ptr<OraclePush>& push) {
    client::PushRequest request = push->Request();
    absl::Notification done;
    absl::Status status;
    worker::DenseCopy* const copy = copies_->Acquire();
    copies_->AcquirePermit(*copy);
    request.cut = copy->cut();
    const uint64_t number = num_pushes_.fetch_add(1);
    request.examples.push_back({0, number, number + 1});
    request.dense_examples = request.examples;
    marker_->Push(absl::StrCat("train/", index_), request, nullptr, push,
                  [&](absl::Status result) {
                    copies_->ReleasePermit();
                    status = std::move(result);
                    done.Notify();
                  });
    copies_->Release(copy);
    done.WaitForNotification();
    return status;
  }

  void EndEpoch(bool failed) {
    copies_->WaitForAllPermits();
    marker_->EndEpoch(failed);
  }

  absl::Status Checkpoint() { return job_->Checkpoint(); }

  absl::Status Finish() {
    marker_ = nullptr;
    return job_->Finish(absl::OkStatus());
  }

  client::GrpcParameterClient* client() { return client_.get(); }
  int partition_bits() const { return client_->partition_bits(); }

 private:
  explicit OracleWorker(uint32_t index) : index_(index) {}

  const uint32_t index_;
  std::unique_ptr<client::ServerConnections> connections_;
  std::unique_ptr<client::GrpcJobClient> job_;
  std::unique_ptr<client::GrpcParameterClient> client_;
  std::unique_ptr<worker::DenseCopyPool> copies_;
  std::unique_ptr<worker::CutMarker> marker_;
  std::atomic<uint64_t> num_pushes_ = 0;
};

class ReplayOracle {
 public:
  ReplayOracle(const Options& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        tables_(OracleTables(options.seed, kColdMemoryBytes)) {}

  // What there was to compare, for people.
  absl::StatusOr<std::string> Run() {
    OARLOCK_RETURN_IF_ERROR(Start());
    OARLOCK_RETURN_IF_ERROR(PushUntilStopped());
    OARLOCK_RETURN_IF_ERROR(
        ForEachThread([this](OracleThread* thread, size_t i) {
          return thread->LookAtAll(workers_[i / kThreads]->client());
        }));
    OARLOCK_RETURN_IF_ERROR(workers_[0]->Checkpoint());
    for (const auto& worker : workers_) {
      OARLOCK_RETURN_IF_ERROR(worker->Finish());
    }
    OARLOCK_RETURN_IF_ERROR(AwaitServersEnd());
    OARLOCK_ASSIGN_OR_RETURN(
        const ComparedCheckpoint compared,
        CompareCheckpoint(options_.checkpoint_dir, tables_, oracle_threads_));
    if (!compared.differences.empty()) {
      return absl::DataLossError(
          absl::StrCat("the checkpoint is not what was acknowledged:\n",
                       absl::StrJoin(compared.differences, "\n")));
    }
    return absl::StrCat(compared.rows, " rows (", compared.extended_rows,
                        " extended) and ", compared.blocks,
                        " dense blocks exact, each partition and block after ",
                        "at least ", compared.min_pushes, " pushes, ",
                        num_checkpoints_, " checkpoints");
  }

  uint64_t num_pushes() const {
    uint64_t sum = 0;
    for (const OracleThread& thread : oracle_threads_) {
      sum += thread.num_pushes();
    }
    return sum;
  }
  size_t num_tables() const { return tables_.size(); }

 private:
  absl::Status Start() {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      OARLOCK_ASSIGN_OR_RETURN(auto worker,
                               OracleWorker::Start(options_.endpoints, i));
      OARLOCK_RETURN_IF_ERROR(worker->CreateTables(tables_));
      OARLOCK_RETURN_IF_ERROR(worker->BeginEpoch());
      workers_.push_back(std::move(worker));
    }
    for (uint32_t i = 0; i < kAllThreads; ++i) {
      oracle_threads_.emplace_back(tables_, workers_[0]->partition_bits(),
                                   options_.seed, i, kAllThreads,
                                   kFormats[i / kThreads]);
    }
    return absl::OkStatus();
  }

  // In a thread for each; the first failure.
  template <typename Work>
  absl::Status ForEachThread(Work work) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < oracle_threads_.size(); ++i) {
      threads.emplace_back(
          [&, i] { failure_.Record(work(&oracle_threads_[i], i)); });
    }
    for (std::thread& thread : threads) thread.join();
    return failure_.status();
  }

  bool stopped() const {
    return !failure_.status().ok() ||
           std::filesystem::exists(options_.stop_file);
  }

  // Whoever runs this says by a file that all servers have ended.
  absl::Status AwaitServersEnd() {
    const absl::Time deadline = clock_.Now() + kServersEnd;
    bool ended = false;
    while (!ended) {
      if (clock_.Now() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat(options_.ended_file, " is not there after ",
                         absl::FormatDuration(kServersEnd)));
      }
      absl::MutexLock lock(&mutex_);
      ended = std::filesystem::exists(options_.ended_file);
      clock_.AwaitFor(&mutex_, absl::Condition(&ended), kPollInterval);
    }
    return absl::OkStatus();
  }

  absl::Status PushUntilStopped() {
    std::thread checkpoints([this] {
      bool pushed = false;
      while (!pushed) {
        // One that a death is in the way of fails; the last one must not.
        num_checkpoints_ += workers_[0]->Checkpoint().ok();
        absl::MutexLock lock(&mutex_);
        pushed = clock_.AwaitFor(&mutex_, absl::Condition(&pushed_),
                                 kCheckpointPause);
      }
    });
    static_cast<void>(ForEachThread([this](OracleThread* thread, size_t i) {
      absl::Status status;
      while (status.ok() && !stopped()) {
        status = PushOnce(thread, workers_[i / kThreads].get());
      }
      return status;
    }));
    {
      absl::MutexLock lock(&mutex_);
      pushed_ = true;
    }
    checkpoints.join();
    for (const auto& worker : workers_) {
      worker->EndEpoch(!failure_.status().ok());
    }
    return failure_.status();
  }

  absl::Status PushOnce(OracleThread* thread, OracleWorker* worker) {
    const std::shared_ptr<OraclePush> push = thread->NextPush();
    OARLOCK_RETURN_IF_ERROR(worker->Push(push));
    OARLOCK_RETURN_IF_ERROR(thread->Acknowledged(*push));
    if (!push->is_looked_at) return absl::OkStatus();
    for (const OraclePush::Rows& rows : push->rows) {
      OARLOCK_RETURN_IF_ERROR(
          thread->LookAtRows(worker->client(), rows.table, rows.keys.keys()));
    }
    return absl::OkStatus();
  }

  const Options options_;
  const Clock& clock_;
  const std::vector<v1::TableConfig> tables_;
  Failure failure_;
  absl::Mutex mutex_;
  // The threads are done.
  bool pushed_ ABSL_GUARDED_BY(mutex_) = false;
  // While it pushed.
  int num_checkpoints_ = 0;
  std::vector<OracleThread> oracle_threads_;
  std::vector<std::unique_ptr<OracleWorker>> workers_;
};

int Main(int argc, char** argv) {
  Options options;
  if (argc != 6 || !absl::SimpleAtoi(argv[2], &options.seed)) {
    std::fprintf(stderr,
                 "usage: replay_oracle ENDPOINTS SEED STOP_FILE ENDED_FILE "
                 "CHECKPOINT_DIR\n");
    return 2;
  }
  options.endpoints = absl::StrSplit(argv[1], ',');
  options.stop_file = argv[3];
  options.ended_file = argv[4];
  options.checkpoint_dir = argv[5];
  InitLogging("oracle");
  ReplayOracle oracle(options, Clock::Monotonic());
  const absl::StatusOr<std::string> compared = oracle.Run();
  std::printf(
      "seed %llu: %llu pushes to %zu tables, %s\n",
      static_cast<unsigned long long>(options.seed),
      static_cast<unsigned long long>(oracle.num_pushes()), oracle.num_tables(),
      compared.ok() ? compared->c_str() : compared.status().ToString().c_str());
  return compared.ok() ? 0 : 1;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) { return oarlock::Main(argc, argv); }
