// Pulls and pushes through the product's client against a server process of
// one job with one worker:
//
//   client_bench --server 127.0.0.1:PORT [--job ID] ...
//
// The table has all 10M rows. With Zipf's keys the clock includes what the
// worker does around a call: removing duplicates before a pull, expanding the
// response to all occurrences after it, summing the gradients before a push.

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/call_and_wait.h"
#include "base/check.h"
#include "base/process/malloc.h"
#include "base/types.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"
#include "bench/wire/traffic.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/parameter_client.h"
#include "client/server_connections.h"
#include "proto/v1/table.pb.h"

namespace oarlock_bench {
namespace {

constexpr oarlock::TableId kVector(2);
constexpr size_t kBatches = 150;
// Of one repetition.
constexpr size_t kCalls = 150;
// As large as the rows of a batch.
constexpr size_t kVectorFloats = kBatchKeys * kDim;
constexpr uint32_t kVectorBlock = 16384;

oarlock::v1::TableConfig VectorConfig() {
  oarlock::v1::TableConfig config = RowsConfig();
  config.set_id(kVector.value());
  config.set_name("vector");
  config.mutable_dense()->set_size(kVectorFloats);
  config.mutable_dense()->set_block_size(kVectorBlock);
  oarlock::v1::DenseParameter* const parameter =
      config.mutable_dense()->add_parameters();
  parameter->set_name("all");
  parameter->add_shape(kVectorFloats);
  parameter->mutable_initializer()->set_uniform_range(0.01f);
  return config;
}

class ClientBench {
 public:
  ClientBench(oarlock::client::ParameterClient* client, size_t num_in_flight)
      : client_(client), traffic_(client, kBatchKeys) {
    for (size_t i = 0; i < num_in_flight; ++i) {
      in_flight_.push_back(std::make_shared<InFlightBatch>(kBatchKeys));
    }
    for (const Distribution distribution :
         {Distribution::kUniform, Distribution::kZipf}) {
      for (const auto& rows :
           MakeBatches(distribution, kBatches, kTableRows, 21)) {
        auto& batch =
            batches_[distribution == Distribution::kZipf].emplace_back();
        for (const uint64_t key : KeysOf(rows)) {
          batch.push_back(oarlock::Key{key});
        }
      }
    }
  }

  // Creates both tables, and all rows of the first.
  void Fill() {
    Require(client_->CreateTable(RowsConfig()));
    Require(client_->CreateTable(VectorConfig()));
    for (uint64_t first = 0; first < kTableRows; first += kBatchKeys) {
      std::vector<oarlock::Key> keys;
      const uint64_t end = std::min(kTableRows, first + kBatchKeys);
      for (uint64_t row = first; row < end; ++row) {
        keys.push_back(oarlock::Key{KeyOfRow(row)});
      }
      in_flight_[0]->keys.Build(keys, client_->partition_bits());
      traffic_.Push(in_flight_[0], traffic_.gradients());
    }
  }

  // One repetition, one call in flight.
  Figures OneInFlight(Distribution distribution, bool pulls, bool pushes) {
    const bool zipf = distribution == Distribution::kZipf;
    const std::shared_ptr<InFlightBatch>& in_flight = in_flight_[0];
    std::vector<double> seconds;
    for (size_t call = 0; call < kCalls; ++call) {
      const auto& batch = batches_[zipf][next_++ % kBatches];
      // Uniform keys have no duplicates worth removing, and a worker pushes
      // the keys that it pulled.
      const bool timed_keys = zipf && pulls;
      if (!timed_keys) in_flight->keys.Build(batch, client_->partition_bits());
      const double start = Now();
      if (timed_keys) in_flight->keys.Build(batch, client_->partition_bits());
      if (pulls) {
        traffic_.Pull(in_flight);
        if (zipf) traffic_.Expand(in_flight.get());
      }
      if (pushes) {
        if (zipf) traffic_.Merge(in_flight.get());
        traffic_.Push(in_flight,
                      zipf ? in_flight->merged.data() : traffic_.gradients());
      }
      seconds.push_back(Now() - start);
    }
    return {{"p50_us", Median(seconds) * 1e6}};
  }

  // One repetition of pulls, as many in flight as there are batches for it.
  Figures SeveralInFlight(Distribution distribution) {
    const bool zipf = distribution == Distribution::kZipf;
    std::mutex mutex;
    std::condition_variable pulled;
    std::deque<size_t> answered;
    const auto start_next = [&](size_t index) {
      const std::shared_ptr<InFlightBatch>& in_flight = in_flight_[index];
      in_flight->keys.Build(batches_[zipf][next_++ % kBatches],
                            client_->partition_bits());
      traffic_.StartPull(in_flight, [&, index] {
        std::lock_guard<std::mutex> lock(mutex);
        answered.push_back(index);
        pulled.notify_one();
      });
    };
    constexpr size_t kInAll = 4 * kCalls;
    const double begin = Now();
    size_t started = 0;
    while (started < in_flight_.size()) start_next(started++);
    for (size_t finished = 0; finished < kInAll; ++finished) {
      size_t index = 0;
      {
        std::unique_lock<std::mutex> lock(mutex);
        pulled.wait(lock, [&] { return !answered.empty(); });
        index = answered.front();
        answered.pop_front();
      }
      if (zipf) traffic_.Expand(in_flight_[index].get());
      if (started++ < kInAll) start_next(index);
    }
    return {
        {"batches_per_second", static_cast<double>(kInAll) / (Now() - begin)}};
  }

  // One repetition of pulls of the dense vector, all of it each time: the data
  // plane without a table's work.
  Figures DensePull() {
    auto replica = std::make_shared<oarlock::client::DenseReplica>();
    std::vector<double> seconds;
    for (size_t call = 0; call < kCalls; ++call) {
      // As if it had never been pulled.
      std::fill(replica->block_versions.begin(), replica->block_versions.end(),
                0);
      const double start = Now();
      const absl::Status outcome = oarlock::CallAndWait(
          [&](oarlock::client::ParameterClient::Done done) {
            client_->PullDense(kVector, replica.get(), replica,
                               std::move(done));
          });
      seconds.push_back(Now() - start);
      Require(outcome);
    }
    return {{"p50_us", Median(seconds) * 1e6}};
  }

 private:
  oarlock::client::ParameterClient* const client_;
  Traffic traffic_;
  std::vector<std::shared_ptr<InFlightBatch>> in_flight_;
  std::vector<std::vector<oarlock::Key>> batches_[2];
  size_t next_ = 0;
};

void AddMeasures(ClientBench* bench, Repetitions* repetitions) {
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kZipf}) {
    const std::string suffix =
        distribution == Distribution::kZipf ? " zipf" : " uniform";
    repetitions->Add("pull" + suffix, [=] {
      return bench->OneInFlight(distribution, true, false);
    });
    repetitions->Add("push" + suffix, [=] {
      return bench->OneInFlight(distribution, false, true);
    });
    repetitions->Add("pull+push" + suffix, [=] {
      return bench->OneInFlight(distribution, true, true);
    });
    repetitions->Add("throughput" + suffix,
                     [=] { return bench->SeveralInFlight(distribution); });
  }
  repetitions->Add("dense pull", [=] { return bench->DensePull(); });
}

int Run(int argc, char** argv) {
  oarlock::client::ConnectionOptions options;
  options.endpoints = {FlagValue(argc, argv, "server", "127.0.0.1:6174")};
  options.job_id = FlagValue(argc, argv, "job", "bench");
  options.client_name = "worker 0";
  auto connections = oarlock::client::ServerConnections::Connect(options);
  Require(connections.status());
  auto job = oarlock::client::GrpcJobClient::Register(connections->get(),
                                                      oarlock::WorkerIndex(0));
  Require(job.status());
  int result = 0;
  {
    oarlock::client::GrpcParameterClient client(
        connections->get(), oarlock::WorkerIndex(0), (*job)->generation());
    ClientBench bench(&client,
                      std::stoul(FlagValue(argc, argv, "in_flight", "4")));
    bench.Fill();
    Repetitions repetitions;
    AddMeasures(&bench, &repetitions);
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
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return oarlock_bench::Run(argc, argv);
}
