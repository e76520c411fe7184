#include "checkpoint/checkpoint_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "checkpoint/checkpoint_export.h"
#include "tests/optim/rule_testing.h"
#include "tests/pserver/checkpoint/checkpoint_maker.h"
#include "tests/pserver/checkpoint/job_servers.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr uint64_t kSeed = 41;
constexpr uint32_t kDim = 5;

std::vector<std::string> Exported(const std::string& checkpoint,
                                  const std::string& table) {
  const std::string path = storage::FreshFolder("exported.txt");
  const auto num_rows =
      ExportRows(pserver::OpenCurrent(checkpoint), table, path);
  EXPECT_TRUE(num_rows.ok()) << num_rows.status();
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  EXPECT_EQ(lines.size(), *num_rows);
  return lines;
}

absl::StatusOr<uint64_t> Import(const std::vector<std::string>& lines,
                                const std::string& like,
                                const CheckpointImportOptions& options) {
  const OpenCheckpoint open = pserver::OpenCurrent(like);
  auto import =
      CheckpointImport::Begin(&open, options, storage::FileSystem::Real());
  if (!import.ok()) return import.status();
  (*import)->BeginFile("rows.txt");
  for (const std::string& line : lines) {
    const absl::Status added = (*import)->AddLine(line);
    if (!added.ok()) return added;
  }
  return (*import)->Finish();
}

// A table of each rule, with what else a row may have in turns: nothing,
// statistics, an extended part that some rows have not got yet, or that all
// have, under another rule.
std::vector<v1::TableConfig> OneTableOfEachRule() {
  const std::vector<v1::OptimizerConfig> rules = optim::OneOfEachRule();
  std::vector<v1::TableConfig> configs(rules.size(),
                                       pserver::SparseConfig(kDim, 0.1f));
  for (uint32_t i = 0; i < configs.size(); ++i) {
    configs[i].set_id(i + 1);
    configs[i].set_name(absl::StrCat("slots", i));
    *configs[i].mutable_optimizer() = rules[i];
    v1::SparseTableConfig& sparse = *configs[i].mutable_sparse();
    sparse.mutable_initializer()->set_uniform_range(0.1f);
    if (i % 4 >= 1) sparse.set_accessor(v1::CTR);
    if (i % 4 >= 2) sparse.set_extended_dim(2);
    if (i % 4 == 2) sparse.set_extended_threshold(1.5f);
    if (i % 4 == 3) {
      *sparse.mutable_extended_optimizer() = rules[(i + 3) % rules.size()];
    }
  }
  return configs;
}

TEST(CheckpointImportTest, WhatWasExportedComesBackUnderEveryRule) {
  pserver::JobServers job(storage::FreshFolder("import_job"), 2);
  const std::vector<v1::TableConfig> configs = OneTableOfEachRule();
  for (const v1::TableConfig& config : configs) {
    ASSERT_TRUE(job.Create(config).ok());
    for (uint64_t step = 1; step <= 6; ++step) {
      job.PushSparse(TableId(config.id()), step,
                     pserver::RandomGradients(kSeed + step, 20, 60, kDim));
    }
  }
  ASSERT_TRUE(job.Save(3).ok());
  // Table after table, each into a checkpoint that is like the one before.
  std::string like = job.directory();
  for (const v1::TableConfig& config : configs) {
    SCOPED_TRACE(config.ShortDebugString());
    const std::vector<std::string> lines = Exported(like, config.name());
    EXPECT_GT(lines.size(), 30u);
    CheckpointImportOptions options;
    options.directory =
        storage::FreshFolder(absl::StrCat("import_", config.name()));
    options.table = config.name();
    options.num_servers = 1 + config.id() % 3;
    const auto num_rows = Import(lines, like, options);
    ASSERT_TRUE(num_rows.ok()) << num_rows.status();
    EXPECT_EQ(*num_rows, lines.size());
    like = options.directory;
  }
  EXPECT_THAT(pserver::Differences(job.directory(), like), IsEmpty());
}

class ImportTest : public testing::Test {
 protected:
  void SetUp() override {
    RandomSequence random(kSeed);
    model_ = pserver::RandomJob(600, random);
    model_.rows[5] = {1.f / 3,
                      std::numeric_limits<float>::denorm_min(),
                      std::numeric_limits<float>::max(),
                      -0.f,
                      -std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::quiet_NaN()};
    ASSERT_TRUE(maker_.Make(7, model_).ok());
    lines_ = Exported(maker_.path(), "slots");
    options_.directory = storage::FreshFolder("imported");
    options_.num_servers = 3;
  }
  absl::StatusOr<uint64_t> Import() {
    return oarlock::checkpoint::Import(lines_, maker_.path(), options_);
  }
  // Nothing that anybody could take for a checkpoint.
  void ExpectNothingIsLeft() {
    for (const auto& entry :
         fs::recursive_directory_iterator(options_.directory)) {
      EXPECT_FALSE(entry.is_regular_file()) << entry.path();
      EXPECT_THAT(entry.path().filename().string(),
                  testing::Not(StartsWith("ckpt-")));
    }
  }

  pserver::CheckpointMaker maker_{storage::FreshFolder("import_like"), 2, 8};
  pserver::JobModel model_;
  std::vector<std::string> lines_;
  CheckpointImportOptions options_;
};

TEST_F(ImportTest, LinesMayComeInAnyOrderAndBeMoreThanFitInMemory) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  for (size_t i = lines_.size(); i > 1; --i) {
    std::swap(lines_[i - 1], lines_[random.Below(i)]);
  }
  // About 40 files of 16 rows.
  options_.memory_bytes = 1000;
  const auto num_rows = Import();
  ASSERT_TRUE(num_rows.ok()) << num_rows.status();
  EXPECT_EQ(*num_rows, model_.rows.size());
  EXPECT_THAT(pserver::Differences(maker_.path(), options_.directory),
              IsEmpty());
  EXPECT_FALSE(fs::exists(options_.directory + "/store/import"));
}

TEST_F(ImportTest, ServersBeginWithItAndAJobRemembersNothing) {
  ASSERT_TRUE(Import().ok());
  const OpenCheckpoint imported = pserver::OpenCurrent(options_.directory);
  const v1::CheckpointManifest& manifest = imported.loaded.manifest;
  EXPECT_EQ(manifest.cut(), 1u);
  EXPECT_EQ(manifest.previous_cut(), 0u);
  EXPECT_THAT(manifest.servers(), SizeIs(3));
  EXPECT_THAT(manifest.works(), IsEmpty());
  EXPECT_EQ(manifest.rounds(), 0u);
  uint64_t num_rows = 0;
  for (const v1::ServerPart& server : manifest.servers()) {
    EXPECT_GT(server.tables(0).rows(), 0u);
    num_rows += server.tables(0).rows();
  }
  EXPECT_EQ(num_rows, model_.rows.size());
}

TEST_F(ImportTest, RowsThatAreNotGivenAreGone) {
  lines_.resize(10);
  ASSERT_TRUE(Import().ok());
  const OpenCheckpoint imported = pserver::OpenCurrent(options_.directory);
  uint64_t num_rows = 0;
  for (const v1::ServerPart& server : imported.loaded.manifest.servers()) {
    num_rows += server.tables(0).rows();
  }
  EXPECT_EQ(num_rows, 10u);
}

TEST_F(ImportTest, AMalformedLineIsNamedWithWhatIsLegalAndNothingIsLeft) {
  const struct {
    std::string line;
    std::string what;
  } kCases[] = {
      {"", "the key is ''; legal is a whole number below 2^64"},
      {"slot7 1 2 3 4 5 6", "the key is 'slot7'"},
      {"-1 1 2 3 4 5 6", "the key is '-1'"},
      {"18446744073709551616 1 2 3 4 5 6", "the key is '18446744073709551616'"},
      {"7 1 2 3 x 5 6", "word 5 is 'x'; legal is a float"},
      {"7 1 2 3 4,5 5 6", "word 5 is '4,5'"},
      {"7 1 2 3 1e39 5 6", "word 5 is '1e39'"},
      {"7 1 2 3 \x1b[2J 5 6", "word 5 is '\\033[2J'"},
      {"7 1 2 3 " + std::string(500, 'y'), "'" + std::string(40, 'y') + "...'"},
      {"7 1 2 3 4 5",
       "the row of key 7 has 6 words; legal is 7 (key, 3 of embedding, 3 of "
       "optimizer state)"},
      {"7 1 2 3 4 5 6 7", "has 8 words; legal is 7"},
      {lines_[400], "was in rows.txt:401; legal is one row for each"},
  };
  const std::vector<std::string> good = lines_;
  for (const auto& [line, what] : kCases) {
    SCOPED_TRACE(line);
    for (const uint64_t memory : {uint64_t{1000}, uint64_t{1} << 20}) {
      options_.memory_bytes = memory;
      lines_ = good;
      lines_.insert(lines_.begin() + 500, line);
      const absl::Status status = Import().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(StartsWith("rows.txt:501: "), HasSubstr(what)));
      ExpectNothingIsLeft();
    }
  }
  // The folder is as good as before.
  lines_ = good;
  EXPECT_TRUE(Import().ok());
}

TEST_F(ImportTest, WordsMayBeAnyNumberOfSpacesApart) {
  lines_[3] = "  " + lines_[3] + "\t ";
  lines_[3].insert(lines_[3].find(' ', 3), " \t");
  ASSERT_TRUE(Import().ok());
  EXPECT_THAT(pserver::Differences(maker_.path(), options_.directory),
              IsEmpty());
}

TEST_F(ImportTest, WhatCannotBeMadeIsRefusedBeforeALineIsRead) {
  options_.num_servers = 9;
  EXPECT_EQ(Import().status().code(), absl::StatusCode::kInvalidArgument);
  options_.num_servers = 2;
  options_.table = "dense";
  EXPECT_EQ(Import().status().code(), absl::StatusCode::kInvalidArgument);
  options_.table = "";
  options_.directory = maker_.path();
  EXPECT_EQ(Import().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(pserver::Differences(maker_.path(), maker_.path()), IsEmpty());
  options_.directory = storage::FreshFolder("foreign");
  fs::create_directories(options_.directory);
  std::ofstream(options_.directory + "/thesis.tex") << "...";
  EXPECT_EQ(Import().status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace oarlock::checkpoint
