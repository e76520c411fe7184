#include "cli/checkpoint/checkpoint_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/pserver/checkpoint/checkpoint_maker.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

constexpr uint64_t kSeed = 37;

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result Checkpoint(std::vector<std::string> words) {
  words.insert(words.begin(), {"oarlock", "checkpoint"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Result result;
  result.code =
      RunCheckpoint(static_cast<int>(argv.size()), argv.data(), Clocks());
  result.out = ::testing::internal::GetCapturedStdout();
  result.err = ::testing::internal::GetCapturedStderr();
  return result;
}

class CheckpointCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    RandomSequence random(kSeed);
    pserver::JobModel model = pserver::RandomJob(200, random);
    ASSERT_TRUE(maker_.Make(1, model).ok());
    model.rows.begin()->second[0] = 9;
    ASSERT_TRUE(maker_.Make(2, model).ok());
    key_ = std::to_string(model.rows.begin()->first);
  }

  pserver::CheckpointMaker maker_{storage::FreshFolder("command"), 2, 8};
  const std::string first_ = maker_.path() + "/ckpt-00000001";
  const std::string second_ = maker_.path() + "/ckpt-00000002";
  std::string key_;
};

TEST_F(CheckpointCommandTest, InspectShowsWhatIsInIt) {
  const Result result = Checkpoint({"inspect", maker_.path()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(second_ + "\ncut 2 of job 'test', "
                                              "2023-11-14 22:13:20 UTC, format "
                                              "1\nbefore it cut 1, "));
  EXPECT_THAT(result.out, MatchesRegex("(.|\n)*1 +slots +sparse +200 rows +"
                                       "changes +[0-9a-f]{16}\n(.|\n)*"));
  EXPECT_THAT(result.out, HasSubstr("server-001"));
  EXPECT_THAT(result.out, HasSubstr("train/0      5000"));
}

TEST_F(CheckpointCommandTest, InspectTellsProgramsTheSame) {
  const Result result = Checkpoint({"inspect", first_, "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["folder"], first_);
  EXPECT_EQ(json["cut"], 1);
  EXPECT_EQ(json["num_partitions"], 8);
  EXPECT_EQ(json["tables"][0]["rows"], 200);
  EXPECT_EQ(json["tables"][0]["written"], "all");
  EXPECT_EQ(json["tables"][1]["values"], 10);
  EXPECT_EQ(json["servers"].size(), 2u);
  EXPECT_EQ(json["coverage"][0]["examples"], 5000);
}

TEST_F(CheckpointCommandTest, VerifySaysSoundOrNamesTheDamagedFile) {
  const Result sound = Checkpoint({"verify", maker_.path()});
  EXPECT_EQ(sound.code, 0) << sound.err;
  EXPECT_THAT(sound.out, HasSubstr(second_ + " is sound: 2 servers"));
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(second_)) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    const std::string path = entry.path();
    // Hard links: a copy is damaged, not the store's.
    std::filesystem::copy(path, path + ".copy");
    std::filesystem::rename(path + ".copy", path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const int byte = file.get();
    file.seekp(0);
    file.put(static_cast<char>(byte ^ 1)).flush();
    const Result damaged = Checkpoint({"verify", maker_.path()});
    EXPECT_EQ(damaged.code, 1) << path;
    EXPECT_THAT(damaged.err, HasSubstr(path));
    EXPECT_EQ(std::count(damaged.err.begin(), damaged.err.end(), '\n'), 1);
    EXPECT_THAT(damaged.out, IsEmpty());
    file.seekp(0);
    file.put(static_cast<char>(byte)).flush();
  }
  EXPECT_EQ(Checkpoint({"verify", maker_.path()}).code, 0);
}

TEST_F(CheckpointCommandTest, DiffSaysEqualOrNamesDifferences) {
  const Result equal = Checkpoint({"diff", maker_.path(), second_});
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_THAT(equal.out, HasSubstr("equal: "));
  const Result different =
      Checkpoint({"diff", first_, second_, "--differences", "1"});
  EXPECT_EQ(different.code, 1);
  EXPECT_THAT(different.out,
              MatchesRegex("table slots key " + key_ +
                           " embedding.0.: [-.0-9]+ in the first, 9 in the "
                           "second\n"));
}

TEST_F(CheckpointCommandTest, ExportWritesALineForEachRow) {
  const std::string file = storage::FreshFolder("command_rows.txt");
  const Result result = Checkpoint(
      {"export", maker_.path(), "--table", "slots", "--output", file});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("wrote 200 rows"));
  std::ifstream in(file);
  size_t num_lines = 0;
  for (std::string line; std::getline(in, line);) {
    ++num_lines;
    EXPECT_THAT(line, MatchesRegex("[0-9]+( [-+.0-9e]+){6}"));
  }
  EXPECT_EQ(num_lines, 200u);
}

TEST_F(CheckpointCommandTest, ImportIsTheInverseOfExport) {
  const std::string file = storage::FreshFolder("command_import.txt");
  const std::string out = storage::FreshFolder("command_imported");
  ASSERT_EQ(Checkpoint({"export", maker_.path(), "--output", file}).code, 0);
  // Two files, of which a command reads one.
  std::ifstream in(file);
  const std::string halves[] = {file + ".0", file + ".1"};
  {
    std::ofstream half[] = {std::ofstream(halves[0]), std::ofstream(halves[1])};
    size_t i = 0;
    for (std::string line; std::getline(in, line);) {
      half[i++ % 2] << line << '\n';
    }
  }
  const Result result = Checkpoint({"import", halves[0], halves[1], "--like",
                                    maker_.path(), "--server_num", "5",
                                    "--output", out, "--pipe_command", "cat"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "made " + out + "/ckpt-00000001 of 200 rows\n");
  EXPECT_EQ(Checkpoint({"verify", out}).code, 0);
  const Result diff = Checkpoint({"diff", maker_.path(), out});
  EXPECT_EQ(diff.code, 0) << diff.out;
}

TEST_F(CheckpointCommandTest, AnImportThatFailsNamesTheLineAndMakesNothing) {
  const std::string file = storage::FreshFolder("command_bad.txt");
  const std::string out = storage::FreshFolder("command_none");
  ASSERT_EQ(Checkpoint({"export", maker_.path(), "--output", file}).code, 0);
  std::ofstream(file, std::ios::app) << "7 1 2 3\n";
  const std::vector<std::string> words = {"import",      file,       "--like",
                                          maker_.path(), "--output", out};
  const Result bad = Checkpoint(words);
  EXPECT_EQ(bad.code, 1);
  EXPECT_EQ(bad.err, "oarlock checkpoint: " + file +
                         ":201: the row of key 7 has 4 words; legal is 7 (key, "
                         "3 of embedding, 3 of optimizer state)\n");
  EXPECT_FALSE(std::filesystem::exists(out + "/CURRENT"));
  EXPECT_FALSE(std::filesystem::exists(out + "/ckpt-00000001"));
  std::ofstream(file, std::ios::binary) << "\x1f\x8b packed";
  const Result packed = Checkpoint(words);
  EXPECT_EQ(packed.code, 1);
  EXPECT_THAT(packed.err, HasSubstr("does not end in .gz; rename it"));
  EXPECT_EQ(Checkpoint({"import", file, "--like", maker_.path()}).code, 2);
  EXPECT_EQ(Checkpoint({"import", file + ".no", "--like", maker_.path(),
                        "--output", out})
                .code,
            1);
}

TEST_F(CheckpointCommandTest, WhatIsNotThereIsSaidInOneLine) {
  const Result missing = Checkpoint({"inspect", maker_.path() + "/nowhere"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere"));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"inspect"},
                                             {"mend", first_},
                                             {"diff", first_},
                                             {"export", first_}}) {
    EXPECT_EQ(Checkpoint(words).code, 2);
  }
  EXPECT_EQ(Checkpoint({"export", first_, "--output",
                        storage::FreshFolder("none.txt"), "--table", "other"})
                .code,
            2);
}

}  // namespace
}  // namespace oarlock::cli
