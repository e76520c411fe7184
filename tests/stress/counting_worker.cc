// A worker whose rows count what was applied to them, for jobs whose servers
// are killed: integer gradients, sgd at learning rate -1, zeros at first, so
// that a row is the number of pushes that reached it, exact up to 2^24.
//
//   counting_worker ENDPOINTS INDEX SEED STOP_FILE [MEMORY_BUDGET_BYTES]
//
// The budget is the table's: rows beyond it lie on the servers' disks.
//
// Pushes to random keys of its own, under the cuts of the job, until the file
// is there; then compares every row with what it has sent. Prints one line;
// exit code 0 when all rows are exact, 1 when not or when a call failed.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "optim/rules.h"
#include "proto/v1/table.pb.h"
#include "tests/client/blocking_calls.h"
#include "tests/stress/job_member.h"
#include "worker/cut/cut_marker.h"
#include "worker/dense/dense_copy_pool.h"

namespace oarlock {
namespace {

constexpr TableId kTable(1);
constexpr size_t kDim = 2;
constexpr uint32_t kKeys = 20'000;
constexpr uint32_t kKeysPerPush = 500;
constexpr int kPermits = 4;

v1::TableConfig CountingTable(uint64_t memory_budget_bytes) {
  v1::TableConfig table;
  table.set_id(kTable.value());
  table.set_name("counts");
  table.set_mode(v1::ASYNC);
  table.set_reduction(v1::SUM);
  table.mutable_optimizer()->set_learning_rate(-1);
  table.mutable_optimizer()->mutable_sgd();
  table.mutable_sparse()->set_dim(kDim);
  table.mutable_sparse()->set_accessor(v1::PLAIN);
  table.mutable_sparse()->mutable_initializer()->set_constant(0);
  table.mutable_sparse()->set_memory_budget_bytes(memory_budget_bytes);
  return table;
}

struct Options {
  std::vector<std::string> endpoints;
  uint32_t index = 0;
  uint64_t seed = 0;
  std::string stop_file;
  uint64_t memory_budget_bytes = 0;
};

class CountingWorker {
 public:
  explicit CountingWorker(const Options& options)
      : options_(options),
        table_(CountingTable(options.memory_budget_bytes)),
        sent_(kKeys),
        random_(options.seed) {}

  absl::Status Run() {
    OARLOCK_ASSIGN_OR_RETURN(member_,
                             JoinJob(options_.endpoints, "counting worker",
                                     WorkerIndex(options_.index)));
    OARLOCK_RETURN_IF_ERROR(member_.client->CreateTable(table_));
    OARLOCK_RETURN_IF_ERROR(member_.job->Barrier("tables"));
    OARLOCK_RETURN_IF_ERROR(PushUntilStopped());
    OARLOCK_RETURN_IF_ERROR(Compare());
    return member_.job->Finish(absl::OkStatus());
  }

  uint64_t num_pushes() const { return num_pushes_; }

 private:
  absl::Status PushUntilStopped() {
    worker::CutMarker marker(member_.client.get(), member_.job.get(),
                             worker::CutMarker::Numbering::kByCut,
                             member_.connections->clock());
    OARLOCK_ASSIGN_OR_RETURN(const optim::UpdateRule rule,
                             optim::UpdateRule::Create(table_.optimizer()));
    std::vector<std::unique_ptr<worker::DenseCopy>> copies;
    copies.push_back(
        std::make_unique<worker::DenseCopy>(rule, client::DenseReplica(), 1));
    worker::DenseCopyPool pool(std::move(copies), kPermits);
    marker.BeginEpoch(&pool, [](worker::DenseCopy*, uint64_t,
                                client::ParameterClient::Done done) {
      done(absl::OkStatus());
    });
    while (!std::filesystem::exists(options_.stop_file) && status().ok()) {
      worker::DenseCopy* const copy = pool.Acquire();
      pool.AcquirePermit(*copy);
      PushOnce(&marker, *copy, &pool);
      pool.Release(copy);
    }
    pool.WaitForAllPermits();
    marker.EndEpoch(!status().ok());
    return status();
  }

  void PushOnce(worker::CutMarker* marker, const worker::DenseCopy& copy,
                worker::DenseCopyPool* pool) {
    std::vector<Key> keys;
    for (uint32_t i = 0; i < kKeysPerPush; ++i) {
      keys.push_back(KeyOf(random_() % kKeys));
    }
    auto batch = std::make_shared<client::RowBatch>();
    batch->keys.Build(keys, member_.client->partition_bits());
    batch->values.assign(batch->keys.keys().size() * kDim, 1);
    for (const Key key : batch->keys.keys()) {
      ++sent_[static_cast<uint32_t>(key)];
    }
    client::PushRequest push;
    push.cut = copy.cut();
    push.sparse.push_back({kTable, &batch->keys, batch->values.data()});
    push.examples.push_back({0, num_pushes_, num_pushes_ + 1});
    ++num_pushes_;
    marker->Push(absl::StrCat("train/", options_.index), push, nullptr, batch,
                 [this, pool](const absl::Status& result) {
                   {
                     absl::MutexLock lock(&mutex_);
                     if (status_.ok()) status_ = result;
                   }
                   pool->ReleasePermit();
                 });
  }

  absl::Status Compare() {
    std::vector<Key> keys;
    for (uint32_t i = 0; i < kKeys; ++i) keys.push_back(KeyOf(i));
    client::RowBatch rows;
    OARLOCK_RETURN_IF_ERROR(
        client::PullRows(*member_.client, kTable, keys, kDim, &rows));
    uint64_t lost = 0;
    uint64_t twice = 0;
    for (size_t i = 0; i < rows.keys.keys().size(); ++i) {
      const float wanted =
          static_cast<float>(sent_[static_cast<uint32_t>(rows.keys.keys()[i])]);
      for (size_t d = 0; d < kDim; ++d) {
        const float got = rows.values[i * kDim + d];
        lost += got < wanted;
        twice += got > wanted;
      }
    }
    if (lost + twice == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(lost, " of ", kKeys * kDim,
                                            " numbers are too small, ", twice,
                                            " too large"));
  }

  // No other worker has it; the low half is its number.
  Key KeyOf(uint32_t number) const {
    return Key{uint64_t{options_.index + 1} << 32 | number};
  }
  absl::Status status() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  const Options options_;
  const v1::TableConfig table_;
  // By number of the key.
  std::vector<uint32_t> sent_;
  std::mt19937_64 random_;
  uint64_t num_pushes_ = 0;
  JobMember member_;
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

int Main(int argc, char** argv) {
  Options options;
  if (argc < 5 || argc > 6 || !absl::SimpleAtoi(argv[2], &options.index) ||
      !absl::SimpleAtoi(argv[3], &options.seed) ||
      (argc == 6 && !absl::SimpleAtoi(argv[5], &options.memory_budget_bytes))) {
    std::fprintf(stderr,
                 "usage: counting_worker ENDPOINTS INDEX SEED STOP_FILE "
                 "[MEMORY_BUDGET_BYTES]\n");
    return 2;
  }
  options.endpoints = absl::StrSplit(argv[1], ',');
  options.stop_file = argv[4];
  InitLogging(absl::StrCat("worker ", options.index));
  CountingWorker worker(options);
  const absl::Status status = worker.Run();
  std::printf("seed %llu: %llu pushes, %s\n",
              static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(worker.num_pushes()),
              status.ok() ? "every row exact" : status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) { return oarlock::Main(argc, argv); }
