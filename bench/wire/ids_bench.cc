// The parameter server's part of training on the ids of real click logs, as one
// worker of a job:
//
//   ids_bench --ids FILE --server HOST:PORT[,HOST:PORT...]
//             [--job ID] [--worker I] [--workers N] ...
//
// FILE has rows in Criteo's format; a worker takes every N-th batch of them.
// The clock includes removing duplicates, and merging gradients before a push;
// where only a pull is measured, expanding its rows to all occurrences too.

#include <array>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/process/malloc.h"
#include "base/types.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"
#include "bench/wire/traffic.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"

namespace oarlock_bench {
namespace {

using Keys = std::vector<oarlock::Key>;

constexpr size_t kFirstIdColumn = 14;
constexpr size_t kIdColumns = 26;
constexpr size_t kBatches[] = {512, 4096};
// Of one repetition.
constexpr size_t kCalls = 150;
constexpr size_t kExamples = 160 * 1024;

// The key of an id in a column: FNV-1a.
oarlock::Key KeyOf(size_t column, absl::string_view id) {
  uint64_t hash = 0xcbf29ce484222325u ^ column;
  for (const char c : id) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return oarlock::Key{Scatter(hash)};
}

// The ids of all rows, one after another.
Keys ReadIds(const std::string& path) {
  std::ifstream file(path);
  Keys keys;
  for (std::string line; std::getline(file, line);) {
    const std::vector<absl::string_view> columns = absl::StrSplit(line, '\t');
    if (columns.size() != kFirstIdColumn + kIdColumns) {
      std::cerr << path << ": a row has " << columns.size()
                << " columns; Criteo's format has 40" << std::endl;
      std::exit(1);
    }
    for (size_t i = 0; i < kIdColumns; ++i) {
      keys.push_back(KeyOf(i, columns[kFirstIdColumn + i]));
    }
  }
  if (keys.size() < 2 * kBatches[1] * kIdColumns) {
    std::cerr << path << ": too few rows, or it cannot be read" << std::endl;
    std::exit(1);
  }
  return keys;
}

// Every num_workers-th batch of so many examples, whole ones only.
std::vector<Keys> Share(const Keys& ids, size_t examples, size_t worker,
                        size_t num_workers) {
  std::vector<Keys> batches;
  const size_t size = examples * kIdColumns;
  for (size_t begin = worker * size; begin + size <= ids.size();
       begin += num_workers * size) {
    batches.emplace_back(ids.begin() + begin, ids.begin() + begin + size);
  }
  return batches;
}

class IdsBench {
 public:
  IdsBench(oarlock::client::ParameterClient* client, const Keys& ids,
           size_t worker, size_t num_workers)
      : client_(client), traffic_(client, kBatches[1] * kIdColumns) {
    for (size_t b = 0; b < 2; ++b) {
      batches_[b] = Share(ids, kBatches[b], worker, num_workers);
    }
    for (std::shared_ptr<InFlightBatch>& in_flight : in_flight_) {
      in_flight = std::make_shared<InFlightBatch>(kBatches[1] * kIdColumns);
    }
  }

  // Makes all rows of this worker's batches.
  void Fill() {
    Require(client_->CreateTable(RowsConfig()));
    for (const Keys& batch : batches_[0]) {
      in_flight_[0]->keys.Build(batch, client_->partition_bits());
      traffic_.Merge(in_flight_[0].get());
      traffic_.Push(in_flight_[0], in_flight_[0]->merged.data());
    }
  }

  // One call in flight, batches of 512.
  Figures OneInFlight(bool pulls) {
    const std::shared_ptr<InFlightBatch>& in_flight = in_flight_[0];
    std::vector<double> seconds, distinct;
    for (size_t call = 0; call < kCalls; ++call) {
      const Keys& batch = batches_[0][next_++ % batches_[0].size()];
      if (!pulls) in_flight->keys.Build(batch, client_->partition_bits());
      const double start = Now();
      if (pulls) {
        in_flight->keys.Build(batch, client_->partition_bits());
        traffic_.Pull(in_flight);
        traffic_.Expand(in_flight.get());
      } else {
        traffic_.Merge(in_flight.get());
        traffic_.Push(in_flight, in_flight->merged.data());
      }
      seconds.push_back(Now() - start);
      distinct.push_back(static_cast<double>(in_flight->keys.keys().size()));
    }
    return {{"p50_us", Median(seconds) * 1e6}, {"distinct", Median(distinct)}};
  }

  // All that a worker does for a batch but the model: removes duplicates,
  // pulls, merges, pushes; a model reads rows where they are. Batches are
  // pulled ahead, with the push of an earlier one. The figures say when, by a
  // clock that all processes share.
  Figures Steps(size_t size_index) {
    const std::vector<Keys>& batches = batches_[size_index];
    const size_t num_steps = kExamples / kBatches[size_index];
    Responses responses;
    const auto start_pull = [&](size_t step) {
      if (step >= num_steps) return;
      // Batches in flight are used in turn, so this one's last push has its
      // response.
      const size_t index = step % kInFlight;
      responses.Wait(&responses.pushes[index], step / kInFlight);
      in_flight_[index]->keys.Build(batches[step % batches.size()],
                                    client_->partition_bits());
      traffic_.EnqueuePull(in_flight_[index], [&responses, index] {
        responses.Add(&responses.pulls[index]);
      });
    };
    const double begin = Now();
    for (size_t step = 0; step < kAhead; ++step) start_pull(step);
    for (size_t step = 0; step < num_steps; ++step) {
      const size_t index = step % kInFlight;
      const std::shared_ptr<InFlightBatch>& in_flight = in_flight_[index];
      start_pull(step + kAhead);
      traffic_.Flush(in_flight);
      responses.Wait(&responses.pulls[index], step / kInFlight + 1);
      traffic_.Merge(in_flight.get());
      traffic_.StartPush(
          in_flight, in_flight->merged.data(),
          [&responses, index] { responses.Add(&responses.pushes[index]); });
    }
    for (size_t i = 0; i < kInFlight; ++i) {
      responses.Wait(&responses.pushes[i],
                     (num_steps + kInFlight - 1 - i) / kInFlight);
    }
    return {
        {"begin", begin},
        {"end", Now()},
        {"examples", static_cast<double>(num_steps * kBatches[size_index])}};
  }

 private:
  // Batches that are pulled ahead; in flight besides are the batch under way
  // and two that are pushed.
  static constexpr size_t kAhead = 2;
  static constexpr size_t kInFlight = kAhead + 3;

  // What has been answered so far, by batch in flight.
  struct Responses {
    void Add(size_t* count) {
      std::lock_guard<std::mutex> lock(mutex);
      ++*count;
      changed.notify_one();
    }
    void Wait(const size_t* count, size_t wanted) {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return *count >= wanted; });
    }
    std::mutex mutex;
    std::condition_variable changed;
    std::array<size_t, kInFlight> pulls = {};
    std::array<size_t, kInFlight> pushes = {};
  };

  oarlock::client::ParameterClient* const client_;
  Traffic traffic_;
  std::vector<Keys> batches_[2];
  std::shared_ptr<InFlightBatch> in_flight_[kInFlight];
  size_t next_ = 0;
};

int Run(int argc, char** argv) {
  const size_t worker = std::stoul(FlagValue(argc, argv, "worker", "0"));
  const oarlock::WorkerIndex index(static_cast<uint32_t>(worker));
  oarlock::client::ConnectionOptions options;
  options.endpoints =
      absl::StrSplit(FlagValue(argc, argv, "server", "127.0.0.1:6174"), ',');
  options.job_id = FlagValue(argc, argv, "job", "bench");
  options.client_name = "worker " + std::to_string(worker);
  auto connections = oarlock::client::ServerConnections::Connect(options);
  Require(connections.status());
  auto job =
      oarlock::client::GrpcJobClient::Register(connections->get(), index);
  Require(job.status());
  int result = 0;
  {
    oarlock::client::GrpcParameterClient client(connections->get(), index,
                                                (*job)->generation());
    IdsBench bench(&client, ReadIds(FlagValue(argc, argv, "ids", "")), worker,
                   std::stoul(FlagValue(argc, argv, "workers", "1")));
    bench.Fill();
    Repetitions repetitions;
    repetitions.Add("pull ids", [&] { return bench.OneInFlight(true); });
    repetitions.Add("push ids", [&] { return bench.OneInFlight(false); });
    repetitions.Add("steps 512", [&] { return bench.Steps(0); });
    repetitions.Add("steps 4096", [&] { return bench.Steps(1); });
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
