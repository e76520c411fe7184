// A worker that trains a model whose parameters count (counting_model.h), for
// jobs whose processes are killed: whatever dies, each row ends as the number
// of times that its key stands in the data, and each dense parameter as the
// number of examples, times the epochs.
//
//   counting_trainer ENDPOINTS INDEX FILES EPOCHS STEP_MS SPEED_UP_FILE MODE
//
// The whole training loop is the one that users run, in a mode of theirs. A
// step takes at least STEP_MS until SPEED_UP_FILE is there, so that a job lasts
// as long as somebody wants to disturb it. Says "registered" on stderr when it
// is part of the job. Worker 0 compares, while the servers are still up, and
// says how many examples all workers trained since the servers were started or
// the job was resumed. Prints one line; exit code 0 when the job is done and
// all numbers are exact, 1 when not.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "tests/stress/job_member.h"
#include "tests/worker/counting_check.h"
#include "tests/worker/counting_model.h"
#include "worker/config/table_plan.h"
#include "worker/report/summary.h"
#include "worker/trainer.h"

namespace oarlock {
namespace {

constexpr size_t kSlots = 26;
// Keys are shared by examples, also within a batch.
constexpr int64_t kSparseFeatureDim = 20'000;
// Five blocks, the last one not full.
constexpr size_t kParameters = 4 * worker::kDenseBlockFloats + 1000;
constexpr int kBatchSize = 64;
constexpr int kThreads = 2;
constexpr int kDenseIntervalSteps = 4;

struct Options {
  std::vector<std::string> endpoints;
  uint32_t index = 0;
  std::string files;
  int epochs = 0;
  int step_ms = 0;
  std::string speed_up_file;
  std::string mode;
};

v1::JobConfig ConfigOf(const Options& options) {
  v1::JobConfig config;
  worker::SetCounting(&config);
  config.add_train_files(options.files);
  config.set_epochs(options.epochs);
  config.set_sparse_feature_dim(kSparseFeatureDim);
  config.set_batch_size(kBatchSize);
  config.set_thread_num(kThreads);
  config.set_dense_interval_steps(kDenseIntervalSteps);
  config.set_mode(options.mode);
  return config;
}

class CountingTrainer {
 public:
  CountingTrainer(const Options& options, const Clock& clock)
      : options_(options), clock_(clock), config_(ConfigOf(options)) {}

  absl::Status Run() {
    OARLOCK_ASSIGN_OR_RETURN(member_,
                             JoinJob(options_.endpoints, "counting trainer",
                                     WorkerIndex(options_.index)));
    Log().info("registered, generation {}", member_.job->generation().value());
    const absl::Status status = TrainAndCompare();
    const absl::Status finished = member_.job->Finish(status);
    return status.ok() ? finished : status;
  }

  uint64_t num_examples() const { return num_examples_; }
  uint64_t num_trained() const { return num_trained_; }

 private:
  absl::Status TrainAndCompare() {
    OARLOCK_ASSIGN_OR_RETURN(
        const std::unique_ptr<worker::Trainer> trainer,
        worker::Trainer::Create(config_,
                                std::make_unique<worker::CountingModel>(
                                    kSlots, kParameters, [this] { Pace(); }),
                                member_.client.get(), member_.job.get()));
    OARLOCK_ASSIGN_OR_RETURN(const worker::TrainingSummary summary,
                             trainer->Run());
    num_trained_ = summary.examples;
    // The others are through with their pushes too.
    if (options_.index != 0) return absl::OkStatus();
    OARLOCK_ASSIGN_OR_RETURN(
        num_examples_,
        worker::CheckCounts(config_,
                            worker::CountingModel(kSlots, kParameters).spec(),
                            *member_.client));
    return absl::OkStatus();
  }

  // A compute thread that finds the file lets go those that wait.
  void Pace() {
    absl::MutexLock lock(&mutex_);
    sped_up_ = sped_up_ || std::filesystem::exists(options_.speed_up_file);
    clock_.AwaitFor(&mutex_, absl::Condition(&sped_up_),
                    absl::Milliseconds(options_.step_ms));
  }

  const Options options_;
  const Clock& clock_;
  const v1::JobConfig config_;
  JobMember member_;
  uint64_t num_examples_ = 0;
  uint64_t num_trained_ = 0;
  absl::Mutex mutex_;
  bool sped_up_ ABSL_GUARDED_BY(mutex_) = false;
};

int Main(int argc, char** argv) {
  Options options;
  if (argc != 8 || !absl::SimpleAtoi(argv[2], &options.index) ||
      !absl::SimpleAtoi(argv[4], &options.epochs) ||
      !absl::SimpleAtoi(argv[5], &options.step_ms)) {
    std::fprintf(stderr,
                 "usage: counting_trainer ENDPOINTS INDEX FILES EPOCHS STEP_MS "
                 "SPEED_UP_FILE MODE\n");
    return 2;
  }
  options.endpoints = absl::StrSplit(argv[1], ',');
  options.files = argv[3];
  options.speed_up_file = argv[6];
  options.mode = argv[7];
  InitLogging(absl::StrCat("worker ", options.index));
  CountingTrainer worker(options, Clock::Monotonic());
  const absl::Status status = worker.Run();
  if (!status.ok()) {
    std::printf("%s\n", status.ToString().c_str());
    return 1;
  }
  if (options.index == 0) {
    std::printf(
        "%d epochs over %llu examples: every row and every dense "
        "parameter exact; this run trained %llu\n",
        options.epochs, static_cast<unsigned long long>(worker.num_examples()),
        static_cast<unsigned long long>(worker.num_trained()));
  }
  return 0;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) { return oarlock::Main(argc, argv); }
