// A worker that trains a model whose parameters count (counting_model.h), for
// jobs whose processes are killed: whatever dies, each row ends as the number of
// times that its key stands in the data, and each dense parameter as the number
// of examples, times the passes.
//
//   counting_trainer ENDPOINTS INDEX FILES EPOCHS STEP_MS HURRY_FILE
//
// The whole training loop is the one that users run. A step takes at least
// STEP_MS until HURRY_FILE is there, so that a job lasts as long as somebody
// wants to disturb it. Worker 0 compares, while the servers are still up. Prints
// one line; exit code 0 when the job is done and all numbers are exact, 1 when
// not.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "tests/worker/client/blocking_calls.h"
#include "tests/worker/counting_model.h"
#include "worker/client/grpc_job_client.h"
#include "worker/client/grpc_parameter_client.h"
#include "worker/client/server_connections.h"
#include "worker/data/bad_lines.h"
#include "worker/data/example_reader.h"
#include "worker/data/file_list.h"
#include "worker/table_plan.h"
#include "worker/trainer.h"

namespace oarlock {
namespace {

constexpr size_t kSlots = 26;
// Keys are shared by examples, also within a batch.
constexpr int64_t kSparseFeatureDim = 20'000;
// Five blocks, the last one not full.
constexpr size_t kParameters = 4 * kDenseBlockFloats + 1000;
constexpr int kBatchSize = 64;
constexpr int kThreads = 2;
constexpr int kDenseIntervalSteps = 4;
// All servers come back within this.
constexpr absl::Duration kPatience = absl::Seconds(60);

struct Options {
  std::vector<std::string> endpoints;
  uint32_t index = 0;
  std::string files;
  int epochs = 0;
  int step_ms = 0;
  std::string hurry_file;
};

v1::JobConfig ConfigOf(const Options& options) {
  v1::JobConfig config;
  SetCounting(&config);
  config.add_train_files(options.files);
  config.set_epochs(options.epochs);
  config.set_sparse_feature_dim(kSparseFeatureDim);
  config.set_batch_size(kBatchSize);
  config.set_thread_num(kThreads);
  config.set_dense_interval_steps(kDenseIntervalSteps);
  return config;
}

// Gives out every file.
class AllFiles : public WorkSource {
 public:
  explicit AllFiles(size_t num_files) : items_(WholeFileItems(num_files)) {}
  absl::StatusOr<std::optional<WorkItem>> Next() override {
    if (next_ == items_.size()) return std::nullopt;
    return items_[next_++];
  }
  void Done(const WorkItem&) override {}

 private:
  const std::vector<WorkItem> items_;
  size_t next_ = 0;
};

class CountingTrainer {
 public:
  explicit CountingTrainer(const Options& options)
      : options_(options), config_(ConfigOf(options)) {}

  absl::Status Run() {
    ConnectionOptions connection;
    connection.endpoints = options_.endpoints;
    connection.client_name = absl::StrCat("counting trainer ", options_.index);
    connection.server_restart_timeout = kPatience;
    OARLOCK_ASSIGN_OR_RETURN(connections_,
                             ServerConnections::Connect(connection));
    OARLOCK_ASSIGN_OR_RETURN(
        job_, GrpcJobClient::Register(connections_.get(),
                                      WorkerIndex(options_.index)));
    client_ = std::make_unique<GrpcParameterClient>(
        connections_.get(), WorkerIndex(options_.index), job_->generation());
    const absl::Status status = TrainAndCompare();
    const absl::Status finished = job_->Finish(status);
    return status.ok() ? finished : status;
  }

  uint64_t num_examples() const { return num_examples_; }

 private:
  absl::Status TrainAndCompare() {
    OARLOCK_ASSIGN_OR_RETURN(
        const std::unique_ptr<Trainer> trainer,
        Trainer::Create(config_,
                        std::make_unique<CountingModel>(
                            kSlots, kParameters, [this] { Pace(); }),
                        client_.get(), job_.get()));
    OARLOCK_RETURN_IF_ERROR(trainer->Run().status());
    // The others are through with their pushes too.
    return options_.index == 0 ? Compare() : absl::OkStatus();
  }

  void Pace() const {
    if (std::filesystem::exists(options_.hurry_file)) return;
    absl::SleepFor(absl::Milliseconds(options_.step_ms));
  }

  // Fills counts_ and num_examples_: one pass over the data.
  absl::Status CountData() {
    OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                             ExpandFileList(options_.files));
    AllFiles work(files.size());
    BadLines bad_lines;
    BatchReader reader(DataOptionsOf(config_), files, &work, &bad_lines);
    Batch batch;
    for (;;) {
      OARLOCK_ASSIGN_OR_RETURN(const bool more, reader.Next(1000, &batch));
      if (!more) return absl::OkStatus();
      num_examples_ += batch.num_examples;
      for (const Key key : batch.keys) ++counts_[key];
    }
  }

  absl::Status Compare() {
    OARLOCK_RETURN_IF_ERROR(CountData());
    const TablePlan plan =
        *PlanTables(CountingModel(kSlots, kParameters).spec(), config_,
                    job_->num_workers());
    std::vector<Key> keys;
    for (const auto& [key, count] : counts_) keys.push_back(key);
    RowBatch rows;
    OARLOCK_RETURN_IF_ERROR(PullRows(*client_, plan.sparse_tables[0], keys,
                                     kCountingRowDim, &rows));
    for (size_t i = 0; i < rows.keys.keys().size(); ++i) {
      for (size_t d = 0; d < kCountingRowDim; ++d) {
        rows_.Compare(rows.values[i * kCountingRowDim + d],
                      counts_.at(rows.keys.keys()[i]) * options_.epochs);
      }
    }
    DenseReplica dense;
    OARLOCK_RETURN_IF_ERROR(PullAll(*client_, plan.dense_table, &dense));
    for (const float value : dense.values) {
      dense_.Compare(value, num_examples_ * options_.epochs);
    }
    if (rows_.exact() && dense_.exact()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("of rows, ", rows_.Describe(),
                                            "; of dense parameters, ",
                                            dense_.Describe()));
  }

  class Tally {
   public:
    void Compare(float got, uint64_t wanted) {
      ++total_;
      const float difference = got - static_cast<float>(wanted);
      lost_ += difference < 0;
      twice_ += difference > 0;
      sum_ += difference;
    }
    bool exact() const { return lost_ + twice_ == 0; }
    std::string Describe() const {
      return absl::StrCat(lost_, " of ", total_, " numbers are too small and ",
                          twice_, " too large, by ", sum_, " in all");
    }

   private:
    uint64_t total_ = 0;
    uint64_t lost_ = 0;
    uint64_t twice_ = 0;
    double sum_ = 0;
  };

  const Options options_;
  const v1::JobConfig config_;
  std::unique_ptr<ServerConnections> connections_;
  std::unique_ptr<GrpcJobClient> job_;
  std::unique_ptr<GrpcParameterClient> client_;
  // How often each key stands in the data.
  std::unordered_map<Key, uint64_t> counts_;
  uint64_t num_examples_ = 0;
  Tally rows_;
  Tally dense_;
};

int Main(int argc, char** argv) {
  Options options;
  if (argc != 7 || !absl::SimpleAtoi(argv[2], &options.index) ||
      !absl::SimpleAtoi(argv[4], &options.epochs) ||
      !absl::SimpleAtoi(argv[5], &options.step_ms)) {
    std::fprintf(stderr,
                 "usage: counting_trainer ENDPOINTS INDEX FILES EPOCHS STEP_MS "
                 "HURRY_FILE\n");
    return 2;
  }
  options.endpoints = absl::StrSplit(argv[1], ',');
  options.files = argv[3];
  options.hurry_file = argv[6];
  InitLogging(absl::StrCat("worker ", options.index));
  CountingTrainer worker(options);
  const absl::Status status = worker.Run();
  if (!status.ok()) {
    std::printf("%s\n", status.ToString().c_str());
    return 1;
  }
  if (options.index == 0) {
    std::printf("%d passes over %llu examples: every row and every dense "
                "parameter exact\n",
                options.epochs,
                static_cast<unsigned long long>(worker.num_examples()));
  }
  return 0;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) { return oarlock::Main(argc, argv); }
