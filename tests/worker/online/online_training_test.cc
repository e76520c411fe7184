// Online training in whole jobs, and what counts as a new file.

#include "worker/online/online_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "data/synthetic/criteo_generator.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"
#include "tests/data/test_files.h"
#include "tests/worker/fake_job_client.h"
#include "tests/worker/training_job.h"

namespace oarlock::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CheckOnlineTrainingTest, TwoSourcesOfExamplesAreRefused) {
  v1::JobConfig config;
  config.set_watch_dir("in");
  EXPECT_TRUE(CheckOnlineTraining(config).ok());
  config.add_train_files("part-0");
  EXPECT_THAT(CheckOnlineTraining(config).message(),
              HasSubstr("--train_files part-0"));
  config.clear_train_files();
  config.set_epochs(2);
  EXPECT_THAT(CheckOnlineTraining(config).message(),
              HasSubstr("--epochs is set, but --watch_dir in trains each file "
                        "once; leave --epochs out"));
  config.set_epochs(1);
  EXPECT_TRUE(CheckOnlineTraining(config).ok());
  config.set_watch_dir("in,out");
  EXPECT_EQ(CheckOnlineTraining(config).code(),
            absl::StatusCode::kInvalidArgument);
  config.set_watch_dir("in/day=*");
  EXPECT_TRUE(CheckOnlineTraining(config).ok());
}

// A job that keeps its list of files in memory; nothing is trained.
class ListOfFiles : public FakeJobClient {
 public:
  absl::StatusOr<v1::ListFilesResponse> ListFiles(
      uint32_t first_epoch) override {
    if (on_list) on_list();
    v1::ListFilesResponse response;
    for (size_t i = first_epoch; i < files.size(); ++i) {
      *response.add_files() = files[i];
    }
    response.set_training_stopped(stopped);
    return response;
  }
  absl::Status RecordFile(const v1::TrainingFile& file) override {
    if (file.epoch() == files.size()) {
      files.push_back(file);
    } else {
      files[file.epoch()] = file;
    }
    return absl::OkStatus();
  }

  std::vector<v1::TrainingFile> files;
  bool stopped = false;
  // Called by every ListFiles, before it looks.
  std::function<void()> on_list;
};

class FileByFileTest : public ::testing::Test {
 protected:
  // Trains with these steps until `job_` is stopped.
  absl::Status Run(const std::function<void(const std::string& name,
                                            const TrainingData& data)>& train) {
    v1::JobConfig config;
    config.set_watch_dir(absl::StrCat(folder_.path(), pattern_));
    config.set_watch_poll_s(.001);
    OnlineTraining::Steps steps;
    steps.predict = [](TrainingData&, const PhaseId&) {
      return absl::OkStatus();
    };
    steps.train = [&](TrainingData& data, uint32_t epoch) {
      trained_.push_back(job_.files[epoch].file());
      train(trained_.back(), data);
      return absl::OkStatus();
    };
    steps.evaluate = [](uint32_t) { return absl::OkStatus(); };
    return OnlineTraining(config, &job_, std::move(steps),
                          {.wall = &clock_, .monotonic = &clock_})
        .Run();
  }

  const SkippingClock clock_;
  TestFolder folder_;
  // Of folders, below folder_; empty: its files are trained.
  std::string pattern_;
  ListOfFiles job_;
  std::vector<std::string> trained_;
};

TEST_F(FileByFileTest, AFolderThatIsAwayForAWhileIsAwaited) {
  const std::string away = absl::StrCat(folder_.path(), ".away");
  folder_.Write("a", "x\n");
  int looks = 0;
  job_.on_list = [&] {
    if (!std::filesystem::exists(away) || ++looks < 5) return;
    std::filesystem::rename(away, folder_.path());
    folder_.Write("b", "x\n");
  };
  const absl::Status done =
      Run([&](const std::string& name, const TrainingData&) {
        if (name == "a") std::filesystem::rename(folder_.path(), away);
        job_.stopped = name == "b";
      });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_THAT(trained_, ElementsAre("a", "b"));
}

TEST_F(FileByFileTest, AFolderThatWasNeverThereEndsTheJob) {
  std::filesystem::remove(folder_.path());
  const absl::Status done = Run([](const std::string&, const TrainingData&) {});
  EXPECT_EQ(done.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(done.message()), HasSubstr(folder_.path()));
}

TEST_F(FileByFileTest, ABinaryFileIsLeftOut) {
  folder_.Write("a", "x\n");
  folder_.Write("b", std::string("\0\1\2", 3));
  folder_.Write("c", "x\n");
  const absl::Status done =
      Run([&](const std::string& name, const TrainingData&) {
        job_.stopped = name == "c";
      });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_THAT(trained_, ElementsAre("a", "c"));
}

TEST_F(FileByFileTest, AFileThatIsRemovedOnceItWasBegunIsLeftOut) {
  folder_.Write("a", "x\n");
  folder_.Write("b", "x\nx\n");
  job_.on_list = [&] {
    if (job_.files.size() == 1) std::filesystem::remove(folder_.Path("a"));
  };
  std::vector<size_t> num_items;
  const absl::Status done =
      Run([&](const std::string& name, const TrainingData& data) {
        num_items.push_back(data.items().size());
        job_.stopped = name == "b";
      });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_THAT(trained_, ElementsAre("a", "b"));
  EXPECT_THAT(num_items, ElementsAre(0u, 1u));
}

TEST_F(FileByFileTest, CompleteFoldersAreTrainedOnceInTheOrderOfTheirNames) {
  pattern_ = "/day=*/hour=*";
  const auto write = [&](const std::string& folder, bool is_complete) {
    std::filesystem::create_directories(folder_.Path(folder));
    for (const std::string name : {"part-10", "part-9", "_log", ".crc"}) {
      folder_.Write(absl::StrCat(folder, "/", name), "x\n");
    }
    if (is_complete) folder_.Write(absl::StrCat(folder, "/_SUCCESS"), "");
  };
  write("day=2/hour=10", true);
  write("day=2/hour=9", true);
  write("day=10/hour=1", true);
  write("day=10/hour=2", false);
  std::vector<std::vector<std::string>> files;
  const absl::Status done =
      Run([&](const std::string& name, const TrainingData& data) {
        files.push_back(data.files());
        if (name == "day=10/hour=1") write("day=10/hour=2", true);
        job_.stopped = name == "day=10/hour=2";
      });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_THAT(trained_, ElementsAre("day=2/hour=9", "day=2/hour=10",
                                    "day=10/hour=1", "day=10/hour=2"));
  EXPECT_THAT(files[0], ElementsAre(folder_.Path("day=2/hour=9/part-9"),
                                    folder_.Path("day=2/hour=9/part-10")));
  ASSERT_EQ(files.size(), 4u);
}

TEST_F(FileByFileTest, AFolderHasTheFilesThatItHadWhenItWasBegun) {
  pattern_ = "/day=*";
  std::filesystem::create_directory(folder_.Path("day=1"));
  for (const std::string name : {"a", "b", "c", "_SUCCESS"}) {
    folder_.Write(absl::StrCat("day=1/", name), "x\n");
  }
  // Of another worker, or before the job goes on.
  job_.on_list = [&] {
    if (job_.files.size() != 1) return;
    std::filesystem::remove(folder_.Path("day=1/b"));
    folder_.Write("day=1/0", "x\n");
  };
  std::vector<std::string> files;
  std::vector<uint32_t> sources;
  const absl::Status done =
      Run([&](const std::string&, const TrainingData& data) {
        files = data.files();
        for (const data::DataRange& item : data.items()) {
          sources.push_back(item.source);
        }
        job_.stopped = true;
      });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_THAT(files,
              ElementsAre(folder_.Path("day=1/a"), folder_.Path("day=1/b"),
                          folder_.Path("day=1/c")));
  // What is gone is left out, and nothing else.
  EXPECT_THAT(sources, ElementsAre(0u, 2u));
}

TEST_F(FileByFileTest, WhatCannotBeReadOfAFolderIsLeftOut) {
  pattern_ = "/day=*";
  for (const std::string name : {"day=1", "day=2", "day=3", "day=4"}) {
    std::filesystem::create_directory(folder_.Path(name));
    folder_.Write(absl::StrCat(name, "/_SUCCESS"), "");
  }
  folder_.Write("day=1/a", "x\n");
  folder_.Write("day=1/b", std::string("\0\1\2", 3));
  folder_.Write("day=2/b", std::string("\0\1\2", 3));
  // day=3 has no file.
  folder_.Write("day=4/a", "x\n");
  std::vector<size_t> num_files;
  const absl::Status done =
      Run([&](const std::string& name, const TrainingData& data) {
        num_files.push_back(data.files().size());
        job_.stopped = name == "day=4";
      });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_THAT(trained_, ElementsAre("day=1", "day=4"));
  EXPECT_THAT(num_files, ElementsAre(1u, 1u));
}

constexpr int kFiles = 3;
// Full batches but for the last one.
constexpr size_t kRowsOf[kFiles] = {800, 700, 950};

class OnlineTrainingTest : public ::testing::Test {
 protected:
  OnlineTrainingTest() {
    data::GeneratorOptions options;
    options.rows = 2450;
    options.files = 1;
    options.seed = 7;
    options.out_dir = folder_.path();
    const auto report = data::GenerateCriteo(options);
    EXPECT_TRUE(report.ok()) << report.status();
    const std::vector<std::string> lines = absl::StrSplit(
        data::ReadAll(folder_.Path("part-0")), '\n', absl::SkipEmpty());
    size_t begin = 0;
    for (int i = 0; i < kFiles; ++i) {
      files_.push_back(watched_.Write(
          absl::StrCat("f", i),
          absl::StrCat(absl::StrJoin(lines.begin() + begin,
                                     lines.begin() + begin + kRowsOf[i], "\n"),
                       "\n")));
      begin += kRowsOf[i];
    }
  }

  v1::JobConfig Config(const std::string& mode) {
    v1::JobConfig config;
    config.set_model("lr");
    config.set_mode(mode);
    config.set_sparse_feature_dim(5000);
    config.set_batch_size(50);
    config.set_learning_rate(.05);
    config.set_warmup_steps(0);
    config.set_num_partitions(16);
    return config;
  }
  v1::JobConfig OnlineConfig(const std::string& mode) {
    v1::JobConfig config = Config(mode);
    config.set_watch_dir(watched_.path());
    config.set_watch_idle_s(.05);
    config.set_watch_poll_s(.01);
    return config;
  }
  static std::string Malformed(int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "no example\n";
    return text;
  }
  static void ExpectOk(const JobOutcome& outcome) {
    for (const absl::Status& status : outcome.statuses) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  TestFolder folder_;
  TestFolder watched_;
  std::vector<std::string> files_;
};

// In rounds there is one order of steps, so the figures are the same bits.
TEST_F(OnlineTrainingTest, TrainsWhatOneEpochOverAllFilesTrains) {
  v1::JobConfig config = Config("sync");
  for (const std::string& file : files_) config.add_train_files(file);
  const JobOutcome at_once = RunLocalJob(config);
  ExpectOk(at_once);
  const JobOutcome online = RunLocalJob(OnlineConfig("sync"));
  ExpectOk(online);
  double loss_sum = 0;
  for (uint32_t i = 0; i < kFiles; ++i) {
    const v1::PhaseProgress& progress = online.Phase("train", i).progress();
    EXPECT_EQ(progress.examples(), kRowsOf[i]);
    loss_sum += progress.loss_sum();
  }
  EXPECT_EQ(loss_sum, at_once.Phase("train", 0).progress().loss_sum());
  EXPECT_EQ(online.summary.epochs, kFiles);
  EXPECT_THAT(online.summary.stop_reason, HasSubstr("no new file came into"));
}

TEST_F(OnlineTrainingTest, WorkersOfAClusterShareEachFolder) {
  std::filesystem::create_directory(watched_.Path("day=1"));
  std::filesystem::create_directory(watched_.Path("day=2"));
  std::filesystem::rename(files_[0], watched_.Path("day=1/f0"));
  std::filesystem::rename(files_[1], watched_.Path("day=1/f1"));
  std::filesystem::rename(files_[2], watched_.Path("day=2/f2"));
  for (const std::string day : {"day=1", "day=2"}) {
    watched_.Write(absl::StrCat(day, "/_SUCCESS"), "");
  }
  for (const std::string mode : {"async", "sync"}) {
    v1::JobConfig config = OnlineConfig(mode);
    config.set_watch_dir(absl::StrCat(watched_.path(), "/day=*"));
    const JobOutcome online = RunClusterJob(config, 2, 3);
    ExpectOk(online);
    const size_t rows[] = {kRowsOf[0] + kRowsOf[1], kRowsOf[2]};
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(online.Phase("train", i).progress().examples(), rows[i]);
      EXPECT_EQ(online.Phase("predict", i).progress().examples(), rows[i]);
    }
    EXPECT_EQ(online.summary.evaluations[0].file(), "day=1");
  }
}

TEST_F(OnlineTrainingTest, PredictsAFileAsTheModelOfThoseBeforeItDoes) {
  const JobOutcome online = RunLocalJob(OnlineConfig("sync"));
  ExpectOk(online);
  ASSERT_EQ(online.summary.evaluations.size(), 3u);
  for (int i = 1; i < kFiles; ++i) {
    v1::JobConfig config = Config("sync");
    for (int j = 0; j < i; ++j) config.add_train_files(files_[j]);
    config.add_test_files(files_[i]);
    const JobOutcome before = RunLocalJob(config);
    ExpectOk(before);
    const v1::Evaluation& evaluation = online.summary.evaluations[i];
    EXPECT_EQ(evaluation.work(), absl::StrCat("predict/", i));
    EXPECT_EQ(evaluation.file(), absl::StrCat("f", i));
    EXPECT_EQ(evaluation.auc(), before.summary.test_auc);
    EXPECT_EQ(evaluation.logloss(), before.summary.test_logloss);
    EXPECT_EQ(evaluation.examples(), kRowsOf[i]);
  }
}

TEST_F(OnlineTrainingTest, WorkersOfAClusterShareEachFile) {
  const JobOutcome online = RunClusterJob(OnlineConfig("async"), 2, 3);
  ExpectOk(online);
  for (uint32_t i = 0; i < kFiles; ++i) {
    EXPECT_EQ(online.Phase("train", i).progress().examples(), kRowsOf[i]);
    EXPECT_EQ(online.Phase("predict", i).progress().examples(), kRowsOf[i]);
  }
  // What was predicted is not what was trained.
  EXPECT_EQ(online.summary.examples, 2450u);
}

TEST_F(OnlineTrainingTest, AFileOfMalformedLinesDoesNotEndTheJob) {
  watched_.Write("f0-bad", Malformed(200));
  const JobOutcome online = RunClusterJob(OnlineConfig("async"), 1, 2);
  ExpectOk(online);
  EXPECT_EQ(online.summary.examples, 2450u);
  // Before they are trained, and then.
  EXPECT_EQ(online.summary.bad_lines, 400u);
}

TEST_F(OnlineTrainingTest, AFirstFileOfMalformedLinesSaysThatFlagsDoNotFit) {
  watched_.Write("a", Malformed(200));
  const JobOutcome online = RunLocalJob(OnlineConfig("async"));
  ASSERT_EQ(online.statuses.size(), 1u);
  EXPECT_THAT(std::string(online.statuses[0].message()),
              HasSubstr("too many malformed lines"));
}

TEST_F(OnlineTrainingTest, AFileThatComesWhileTheJobRunsIsTrained) {
  v1::JobConfig config = OnlineConfig("async");
  config.set_watch_idle_s(3600);
  SkippableClock clock;
  std::future<JobOutcome> job = std::async(std::launch::async, [&] {
    MiniClusterOptions cluster;
    cluster.num_workers = 2;
    return RunClusterJob(config, cluster,
                         {.clocks = {.wall = &clock, .monotonic = &clock}});
  });
  // There before the job has looked at all of the others, or after: either way
  // it is one more.
  watched_.Write("g.tmp", data::ReadAll(files_[0]));
  std::filesystem::rename(watched_.Path("g.tmp"), watched_.Path("g"));
  EXPECT_TRUE(Eventually([&] {
    clock.Skip(absl::Hours(1));
    return job.wait_for(std::chrono::milliseconds(10)) ==
           std::future_status::ready;
  }));
  const JobOutcome online = job.get();
  ExpectOk(online);
  EXPECT_EQ(online.summary.examples, 2450u + kRowsOf[0]);
}

}  // namespace
}  // namespace oarlock::worker
