// Programs that say when a share of the data is loaded, shuffled and released.
// That nothing is read again shows where the files are gone by then.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "data/order/example_order.h"
#include "data/parse/bad_lines.h"
#include "tests/data/test_files.h"
#include "tests/worker/fake_job_client.h"
#include "worker/input/training_data.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kExamples = 1200;

using Keys = std::vector<uint64_t>;

// Worker `index` of a job whose others are not there.
class OneOfSeveral : public FakeJobClient {
 public:
  OneOfSeveral(uint32_t index, uint32_t num_workers)
      : index_(index), num_workers_(num_workers) {}
  WorkerIndex worker_index() const override { return WorkerIndex(index_); }
  uint32_t num_workers() const override { return num_workers_; }

 private:
  const uint32_t index_;
  const uint32_t num_workers_;
};

// What the calls of a worker need, and the data.
class WorkersData {
 public:
  WorkersData(v1::JobConfig config, uint32_t index, uint32_t num_workers)
      : config_(std::move(config)), job_(index, num_workers) {
    auto data = TrainingData::Open(
        config_, {config_.train_files().begin(), config_.train_files().end()},
        TrainingData::Division::kConfigured, &job_, clock_);
    EXPECT_TRUE(data.ok()) << data.status();
    data_ = *std::move(data);
  }
  TrainingData* operator->() { return data_.get(); }

  // The keys of an epoch, in the order in which this worker takes them; empty
  // when it cannot be read.
  Keys KeysOf(uint32_t epoch) {
    const auto ranges = data_->StartPhase({"train", epoch}, nullptr);
    if (!ranges.ok()) return {};
    Keys keys;
    data::BadLines bad_lines;
    data::Batch batch;
    for (data::RangeSource* source : (*ranges)->sources()) {
      const auto reader = (*ranges)->new_reader()(0, source, &bad_lines);
      for (;;) {
        const auto more = reader->Next(100, &batch);
        EXPECT_TRUE(more.ok()) << more.status();
        if (!more.ok() || !*more) break;
        for (const Key key : batch.keys) {
          keys.push_back(static_cast<uint64_t>(key));
        }
      }
    }
    return keys;
  }

 private:
  const SkippingClock clock_;
  const v1::JobConfig config_;
  OneOfSeveral job_;
  std::unique_ptr<TrainingData> data_;
};

Keys Sorted(Keys keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}

class DatasetCallsTest : public ::testing::Test {
 protected:
  // Example i has key i and nothing else.
  void SetUp() override {
    std::string files[2];
    for (uint64_t i = 0; i < kExamples; ++i) {
      absl::StrAppend(&files[i < 700 ? 0 : 1], i % 2, " ", i, ":1\n");
    }
    folder_.Write("part-0", files[0]);
    folder_.Write("part-1", files[1]);
    all_.resize(kExamples);
    std::iota(all_.begin(), all_.end(), uint64_t{0});
  }

  // Nothing is loaded that nobody has asked for.
  v1::JobConfig Config(const std::string& shuffle = "none") {
    v1::JobConfig config;
    config.set_model("lr");
    config.set_data_format("libsvm");
    config.set_sparse_feature_dim(0);
    config.add_train_files(folder_.Path("part-*"));
    config.set_batch_size(50);
    config.set_epochs(3);
    config.set_dataset("memory");
    config.set_preload(false);
    config.set_shuffle(shuffle);
    config.set_shuffle_window_examples(128);
    return config;
  }
  void RemoveFiles() {
    std::filesystem::remove(folder_.Path("part-0"));
    std::filesystem::remove(folder_.Path("part-1"));
  }

  TestFolder folder_;
  Keys all_;
};

TEST_F(DatasetCallsTest, ALoadedShareIsTrainedWithoutTheFiles) {
  WorkersData data(Config(), 0, 1);
  EXPECT_EQ(data->memory_bytes(), 0u);
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  EXPECT_GT(data->memory_bytes(), kExamples * sizeof(Key));
  RemoveFiles();
  // It is there.
  EXPECT_TRUE(data->LoadIntoMemory(0).ok());
  EXPECT_EQ(data.KeysOf(0), all_);
}

TEST_F(DatasetCallsTest, APreloadGoesOnUntilItIsWaitedFor) {
  WorkersData data(Config(), 0, 1);
  ASSERT_TRUE(data->PreloadIntoMemory(0).ok());
  ASSERT_TRUE(data->PreloadIntoMemory(0).ok());
  ASSERT_TRUE(data->WaitPreload().ok());
  const uint64_t bytes = data->memory_bytes();
  EXPECT_GT(bytes, 0u);
  RemoveFiles();
  EXPECT_EQ(data.KeysOf(0), all_);
  // Nothing was asked for since.
  EXPECT_TRUE(data->WaitPreload().ok());
}

TEST_F(DatasetCallsTest, APreloadThatFailsIsReportedAndThenTriedAnew) {
  WorkersData data(Config(), 0, 1);
  const std::string hidden = folder_.Path("hidden");
  std::filesystem::rename(folder_.Path("part-1"), hidden);
  ASSERT_TRUE(data->PreloadIntoMemory(0).ok());
  EXPECT_FALSE(data->WaitPreload().ok());
  EXPECT_FALSE(data->LoadIntoMemory(0).ok());
  std::filesystem::rename(hidden, folder_.Path("part-1"));
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  EXPECT_EQ(data.KeysOf(0), all_);
}

TEST_F(DatasetCallsTest, LocalShuffleOfWhatIsLoadedReadsNothing) {
  WorkersData flags(Config("local"), 1, 2);
  const Keys expected = flags.KeysOf(0);
  const Keys expected_next = flags.KeysOf(1);
  WorkersData data(Config(), 1, 2);
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  RemoveFiles();
  ASSERT_TRUE(data->SetShuffle(data::ShuffleRule::kLocal).ok());
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  const Keys taken = data.KeysOf(0);
  EXPECT_EQ(taken.size(), kExamples / 2);
  EXPECT_NE(taken, Sorted(taken));
  // What the flag would have made of it, in this epoch and in the next.
  EXPECT_EQ(taken, expected);
  EXPECT_EQ(data.KeysOf(1), expected_next);
  EXPECT_NE(expected_next, expected);
}

TEST_F(DatasetCallsTest, AShuffleWhileItIsLoadedKeepsWhatIsBeingRead) {
  const Keys expected = WorkersData(Config("local"), 0, 2).KeysOf(0);
  WorkersData data(Config(), 0, 2);
  ASSERT_TRUE(data->PreloadIntoMemory(0).ok());
  ASSERT_TRUE(data->SetShuffle(data::ShuffleRule::kLocal).ok());
  ASSERT_TRUE(data->WaitPreload().ok());
  RemoveFiles();
  EXPECT_EQ(data.KeysOf(0), expected);
}

TEST_F(DatasetCallsTest, GlobalShuffleOfOneWorkerReadsNothing) {
  const Keys expected = WorkersData(Config("global"), 0, 1).KeysOf(0);
  WorkersData data(Config(), 0, 1);
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  RemoveFiles();
  ASSERT_TRUE(data->SetShuffle(data::ShuffleRule::kGlobal).ok());
  const Keys taken = data.KeysOf(0);
  EXPECT_EQ(taken, expected);
  EXPECT_EQ(Sorted(taken), all_);
}

TEST_F(DatasetCallsTest, GlobalShuffleThatTheFlagsSaidReadsNothing) {
  WorkersData data(Config("global"), 0, 2);
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  RemoveFiles();
  ASSERT_TRUE(data->SetShuffle(data::ShuffleRule::kGlobal).ok());
  EXPECT_EQ(data.KeysOf(0).size(), kExamples / 2);
}

TEST_F(DatasetCallsTest, GlobalShuffleMovesExamplesBetweenWorkers) {
  Keys together;
  for (const uint32_t worker : {0, 1}) {
    SCOPED_TRACE(absl::StrCat("worker ", worker));
    const Keys own = Sorted(WorkersData(Config(), worker, 2).KeysOf(0));
    WorkersData data(Config(), worker, 2);
    ASSERT_TRUE(data->LoadIntoMemory(0).ok());
    const uint64_t bytes = data->memory_bytes();
    ASSERT_TRUE(data->SetShuffle(data::ShuffleRule::kGlobal).ok());
    // The share of the same epoch, in place of the one that was loaded.
    ASSERT_TRUE(data->WaitPreload().ok());
    EXPECT_LT(data->memory_bytes(), bytes + bytes / 2);
    if (worker == 1) RemoveFiles();
    const Keys taken = data.KeysOf(0);
    EXPECT_EQ(taken.size(), kExamples / 2);
    EXPECT_NE(Sorted(taken), own);
    together.insert(together.end(), taken.begin(), taken.end());
  }
  EXPECT_EQ(Sorted(together), all_);
}

TEST_F(DatasetCallsTest, AShuffleBeforeLoadingIsThatOfTheFlags) {
  WorkersData flags(Config("global"), 1, 2);
  v1::JobConfig config = Config();
  // As by default: it is being loaded when the program says how.
  config.set_preload(true);
  WorkersData data(config, 1, 2);
  ASSERT_TRUE(data->SetShuffle(data::ShuffleRule::kGlobal).ok());
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  EXPECT_EQ(data.KeysOf(0), flags.KeysOf(0));
  EXPECT_EQ(data.KeysOf(1), flags.KeysOf(1));
  EXPECT_EQ(data.KeysOf(2), flags.KeysOf(2));
}

TEST_F(DatasetCallsTest, AShuffleThatFlagsCouldNotSayIsRefused) {
  v1::JobConfig config = Config();
  config.set_split("by_file");
  WorkersData data(config, 0, 2);
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  v1::JobConfig flags = config;
  flags.set_shuffle("global");
  const absl::Status refused = data->SetShuffle(data::ShuffleRule::kGlobal);
  EXPECT_EQ(refused, TrainingData::CheckConfig(flags));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--split by_file"));
  // It changed nothing, and the other is legal.
  RemoveFiles();
  EXPECT_EQ(data.KeysOf(0), Keys(all_.begin(), all_.begin() + 700));
  EXPECT_TRUE(data->SetShuffle(data::ShuffleRule::kLocal).ok());
  EXPECT_EQ(data.KeysOf(1).size(), 700u);
}

TEST_F(DatasetCallsTest, ReleasedMemoryIsGivenBackUntilTheNextEpoch) {
  v1::JobConfig config = Config("local");
  // While an epoch is trained the next one is loaded.
  config.set_preload(true);
  WorkersData data(config, 0, 1);
  ASSERT_TRUE(data->LoadIntoMemory(0).ok());
  EXPECT_EQ(Sorted(data.KeysOf(0)), all_);
  EXPECT_GT(data->memory_bytes(), 0u);
  ASSERT_TRUE(data->ReleaseMemory().ok());
  EXPECT_EQ(data->memory_bytes(), 0u);
  EXPECT_TRUE(data->WaitPreload().ok());
  // Again reads again.
  EXPECT_EQ(Sorted(data.KeysOf(1)), all_);
  ASSERT_TRUE(data->ReleaseMemory().ok());
  RemoveFiles();
  EXPECT_EQ(data.KeysOf(2), Keys());
}

TEST_F(DatasetCallsTest, QueuesHaveNoneOfIt) {
  v1::JobConfig config = Config();
  config.set_dataset("queue");
  config.clear_preload();
  WorkersData data(config, 0, 1);
  for (const absl::Status& status :
       {data->LoadIntoMemory(0), data->PreloadIntoMemory(0),
        data->WaitPreload(), data->SetShuffle(data::ShuffleRule::kLocal),
        data->SetShuffle(data::ShuffleRule::kGlobal), data->ReleaseMemory()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--dataset memory"));
  }
  EXPECT_EQ(data->memory_bytes(), 0u);
}

}  // namespace
}  // namespace oarlock::worker
