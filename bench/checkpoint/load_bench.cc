// A worker under load while checkpoints are made, beside real servers:
//
//   load_bench --server HOST:PORT[,HOST:PORT...] [--rows 10000000]
//              [--seconds 5] [--compute_us 6000] ...
//
// Two threads pull a batch, compute so long, and push, as the compute threads
// of a worker; keys are drawn uniformly. A first checkpoint, of the filled
// table, is made before anything is measured.

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/log.h"
#include "base/process/malloc.h"
#include "base/types.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"
#include "bench/wire/traffic.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"
#include "optim/rules.h"
#include "worker/cut/cut_marker.h"
#include "worker/dense/dense_copy_pool.h"

namespace oarlock_bench {
namespace {

constexpr int kThreads = 2;
constexpr int kPermits = 4;
constexpr double kMicros = 1e6;

double Quantile(std::vector<double>* values, double q) {
  if (values->empty()) return 0;
  const auto at =
      values->begin() +
      static_cast<ptrdiff_t>(q * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

struct Times {
  std::vector<double> pulls, pushes;
  void Take(Times&& other) {
    pulls.insert(pulls.end(), other.pulls.begin(), other.pulls.end());
    pushes.insert(pushes.end(), other.pushes.begin(), other.pushes.end());
  }
};

class LoadBench {
 public:
  LoadBench(oarlock::client::ParameterClient* client,
            oarlock::client::JobClient* job, const oarlock::Clock& clock,
            uint64_t rows, double seconds, double compute_us)
      : client_(client),
        job_(job),
        rows_(rows),
        seconds_(seconds),
        compute_us_(compute_us),
        gradients_(SomeGradients(kBatchKeys)),
        marker_(client, job, oarlock::worker::CutMarker::Numbering::kByCut,
                clock),
        pool_(MakeDenseCopies(), kPermits) {
    marker_.BeginEpoch(&pool_, [](oarlock::worker::DenseCopy*, uint64_t,
                                  oarlock::client::ParameterClient::Done done) {
      done(absl::OkStatus());
    });
  }
  ~LoadBench() {
    pool_.WaitForAllPermits();
    marker_.EndEpoch(/*failed=*/false);
  }

  void Fill() {
    Require(client_->CreateTable(RowsConfig()));
    PushRows([row = uint64_t{0}, this]() mutable {
      return row < rows_ ? row++ : rows_;
    });
  }

  Figures Checkpoint() {
    const double start = Now();
    Require(job_->Checkpoint());
    return {{"seconds", Now() - start}};
  }

  // One row in a hundred, drawn at random, changes; then a checkpoint.
  Figures OnePercent() {
    PushRows([this, left = rows_ / 100]() mutable {
      return left-- > 0 ? random_() % rows_ : rows_;
    });
    return Checkpoint();
  }

  // For so long.
  Figures Quiet() { return For(seconds_); }
  // A tenth of it.
  Figures Briefly() { return For(seconds_ / 10); }

  // While a checkpoint is being made.
  Figures DuringCheckpoint() {
    return Load([this] { Require(job_->Checkpoint()); });
  }

 private:
  static std::vector<std::unique_ptr<oarlock::worker::DenseCopy>>
  MakeDenseCopies() {
    auto rule = oarlock::optim::UpdateRule::Create(RowsConfig().optimizer());
    Require(rule.status());
    std::vector<std::unique_ptr<oarlock::worker::DenseCopy>> copies;
    for (int i = 0; i < kThreads; ++i) {
      copies.push_back(std::make_unique<oarlock::worker::DenseCopy>(
          *rule, oarlock::client::DenseReplica(), 1));
    }
    return copies;
  }

  // Pushes rows until `next` says rows_.
  void PushRows(const std::function<uint64_t()>& next) {
    for (bool more = true; more;) {
      std::vector<oarlock::Key> keys;
      while (keys.size() < kBatchKeys) {
        const uint64_t row = next();
        if (row == rows_) {
          more = false;
          break;
        }
        keys.push_back(oarlock::Key{KeyOfRow(row)});
      }
      auto in_flight = std::make_shared<InFlightBatch>(kBatchKeys);
      in_flight->keys.Build(keys, client_->partition_bits());
      oarlock::worker::DenseCopy* const dense = pool_.Acquire();
      Push(in_flight, *dense, nullptr);
      pool_.Release(dense);
    }
    pool_.WaitForAllPermits();
  }

  void Push(const std::shared_ptr<InFlightBatch>& in_flight,
            const oarlock::worker::DenseCopy& dense, Times* times) {
    pool_.AcquirePermit(dense);
    oarlock::client::PushRequest push;
    push.cut = dense.cut();
    push.sparse.push_back({kRows, &in_flight->keys, gradients_.data()});
    const double start = Now();
    marker_.Push("train/0", push, nullptr, in_flight,
                 [this, times, start](const absl::Status& status) {
                   Require(status);
                   if (times != nullptr) {
                     std::lock_guard<std::mutex> lock(mutex_);
                     times->pushes.push_back(Now() - start);
                   }
                   pool_.ReleasePermit();
                 });
  }

  void RunThread(int thread, const std::atomic<bool>& stop, Times* pulls,
                 Times* pushes) {
    std::mt19937_64 random(thread);
    std::vector<oarlock::Key> keys(kBatchKeys);
    while (!stop) {
      for (oarlock::Key& key : keys) {
        key = oarlock::Key{KeyOfRow(random() % rows_)};
      }
      auto in_flight = std::make_shared<InFlightBatch>(kBatchKeys);
      in_flight->keys.Build(keys, client_->partition_bits());
      const double start = Now();
      absl::Notification pulled;
      client_->PullSparse(kRows, in_flight->keys, in_flight->rows.data(),
                          nullptr, in_flight,
                          [&pulled](const absl::Status& status) {
                            Require(status);
                            pulled.Notify();
                          });
      pulled.WaitForNotification();
      pulls->pulls.push_back(Now() - start);
      oarlock::worker::DenseCopy* const dense = pool_.Acquire();
      const double begin = ThreadCpu();
      while ((ThreadCpu() - begin) * kMicros < compute_us_) {
      }
      Push(in_flight, *dense, pushes);
      pool_.Release(dense);
    }
  }

  Figures For(double seconds) {
    return Load([seconds] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    });
  }
  Figures Load(const std::function<void()>& meanwhile) {
    std::atomic<bool> stop = false;
    Times times;
    std::vector<Times> times_of_thread(kThreads);
    std::vector<std::thread> threads;
    const double start = Now();
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back(
          [&, i] { RunThread(i, stop, &times_of_thread[i], &times); });
    }
    meanwhile();
    const double seconds = Now() - start;
    stop = true;
    for (std::thread& thread : threads) thread.join();
    pool_.WaitForAllPermits();
    for (Times& one : times_of_thread) times.Take(std::move(one));
    const auto count = static_cast<double>(times.pulls.size());
    return {{"seconds", seconds},
            {"batches_per_second", count / seconds},
            {"pull_p50_us", Quantile(&times.pulls, .5) * kMicros},
            {"pull_p99_us", Quantile(&times.pulls, .99) * kMicros},
            {"push_p50_us", Quantile(&times.pushes, .5) * kMicros},
            {"push_p99_us", Quantile(&times.pushes, .99) * kMicros},
            {"push_longest_us", Quantile(&times.pushes, 1) * kMicros}};
  }

  oarlock::client::ParameterClient* const client_;
  oarlock::client::JobClient* const job_;
  const uint64_t rows_;
  const double seconds_;
  const double compute_us_;
  const std::vector<float> gradients_;
  std::mt19937_64 random_{1};
  std::mutex mutex_;
  oarlock::worker::CutMarker marker_;
  oarlock::worker::DenseCopyPool pool_;
};

int Run(int argc, char** argv) {
  const oarlock::WorkerIndex index(0);
  oarlock::client::ConnectionOptions options;
  options.endpoints =
      absl::StrSplit(FlagValue(argc, argv, "server", "127.0.0.1:6174"), ',');
  options.job_id = FlagValue(argc, argv, "job", "bench");
  options.client_name = "worker 0";
  auto connections = oarlock::client::ServerConnections::Connect(options);
  Require(connections.status());
  auto job =
      oarlock::client::GrpcJobClient::Register(connections->get(), index);
  Require(job.status());
  int result = 0;
  {
    oarlock::client::GrpcParameterClient client(connections->get(), index,
                                                (*job)->generation());
    LoadBench bench(&client, job->get(), (*connections)->clock(),
                    std::stoull(FlagValue(argc, argv, "rows", "10000000")),
                    std::stod(FlagValue(argc, argv, "seconds", "5")),
                    std::stod(FlagValue(argc, argv, "compute_us", "6000")));
    bench.Fill();
    bench.Checkpoint();
    Repetitions repetitions;
    repetitions.Add("quiet", [&] { return bench.Quiet(); });
    repetitions.Add("briefly", [&] { return bench.Briefly(); });
    repetitions.Add("checkpoint", [&] { return bench.DuringCheckpoint(); });
    repetitions.Add("one percent", [&] { return bench.OnePercent(); });
    result = repetitions.Run(argc, argv);
  }
  Require((*job)->Finish(absl::OkStatus()));
  return result;
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  // As every process of a job.
  oarlock::KeepFreedMemory();
  oarlock::InitLogging("worker 0");  // to stderr
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return oarlock_bench::Run(argc, argv);
}
