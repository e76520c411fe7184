#include "checkpoint/checkpoint_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/checkpoint_export.h"
#include "checkpoint/checkpoint_rows.h"
#include "tests/pserver/checkpoint/checkpoint_maker.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSeed = 31;

OpenCheckpoint Open(const std::string& path) {
  auto loaded = LoadCheckpoint(storage::FileSystem::Real(), path);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  auto open = VerifyAndOpen(storage::FileSystem::Real(), *std::move(loaded), 2);
  EXPECT_TRUE(open.ok()) << open.status();
  return *std::move(open);
}

// A folder with one checkpoint of the model.
std::string Whole(const std::string& name, const pserver::JobModel& model,
                  uint32_t num_servers, uint32_t num_partitions,
                  uint64_t cut = 3) {
  pserver::CheckpointMaker maker(storage::FreshFolder(name), num_servers,
                                 num_partitions);
  const absl::Status made = maker.Make(cut, model);
  EXPECT_TRUE(made.ok()) << made;
  return maker.path();
}

std::vector<std::string> Diff(const std::string& a, const std::string& b,
                              size_t max_differences = 10) {
  const auto differences = DiffCheckpoints(Open(a), Open(b), max_differences);
  EXPECT_TRUE(differences.ok()) << differences.status();
  return *differences;
}

class CheckpointDiffTest : public testing::Test {
 protected:
  RandomSequence random_{kSeed};
  pserver::JobModel model_ = pserver::RandomJob(500, random_);
};

TEST_F(CheckpointDiffTest, ServersAndPartitionsMakeNoDifference) {
  const std::string one = Whole("diff_one", model_, 1, 8);
  EXPECT_THAT(Diff(one, Whole("diff_three", model_, 3, 8)), IsEmpty());
  EXPECT_THAT(Diff(one, Whole("diff_more", model_, 2, 32)), IsEmpty());
  EXPECT_THAT(Diff(Whole("diff_less", model_, 2, 2), one), IsEmpty());
}

TEST_F(CheckpointDiffTest, AWholeAndItsChangesAreEqual) {
  pserver::CheckpointMaker changes(storage::FreshFolder("diff_changes"), 2, 4);
  ASSERT_TRUE(changes.Make(1, model_).ok());
  for (uint64_t cut = 2; cut <= 3; ++cut) {
    // Some rows change, some go, some of those that went come back.
    const pserver::JobModel fresh = pserver::RandomJob(40, random_);
    for (const auto& [key, row] : fresh.rows) {
      auto at = model_.rows.lower_bound(key);
      if (at == model_.rows.end()) at = model_.rows.begin();
      at->second = row;
      at = model_.rows.lower_bound(random_());
      if (at != model_.rows.end()) model_.rows.erase(at);
      model_.rows[key] = row;
    }
    model_.values = fresh.values;
    ASSERT_TRUE(changes.Make(cut, model_).ok());
  }
  const std::string whole = Whole("diff_whole", model_, 3, 4);
  EXPECT_THAT(Diff(changes.path(), whole), IsEmpty());
  const absl::Status verified = VerifyTables(Open(changes.path()));
  EXPECT_TRUE(verified.ok()) << verified;
  // The first is not the last.
  EXPECT_EQ(Diff(changes.path() + "/ckpt-00000001", whole, 7).size(), 7u);
}

TEST_F(CheckpointDiffTest, EachKindOfDifferenceIsNamed) {
  const std::string a = Whole("diff_a", model_, 1, 8);
  const auto changed = [&](auto change) {
    pserver::JobModel model = model_;
    change(model);
    return Diff(a, Whole("diff_b", model, 2, 8));
  };
  const uint64_t key = model_.rows.begin()->first;
  EXPECT_THAT(changed([&](pserver::JobModel& m) { m.rows[key][1] = 2; }),
              ElementsAre(AllOf(HasSubstr(absl::StrCat("table slots key ", key,
                                                       " embedding[1]")),
                                HasSubstr("2 in the second"))));
  EXPECT_THAT(changed([&](pserver::JobModel& m) { m.rows[key][5] = 2; }),
              ElementsAre(HasSubstr("optimizer state[2]")));
  EXPECT_THAT(changed([&](pserver::JobModel& m) { m.rows.erase(key); }),
              ElementsAre(HasSubstr(
                  absl::StrCat("key ", key, " is only in the first"))));
  EXPECT_THAT(changed([&](pserver::JobModel& m) {
                m.rows[77] = std::vector<float>(6, 1.f);
              }),
              ElementsAre(HasSubstr("key 77 is only in the second")));
  EXPECT_THAT(changed([&](pserver::JobModel& m) { m.values[9] = 5; }),
              ElementsAre(HasSubstr("table dense value 9")));
  EXPECT_THAT(changed([&](pserver::JobModel& m) { m.values[13] = 5; }),
              ElementsAre(HasSubstr("block 0 optimizer state[3]")));
  // -0 trains differently from 0.
  pserver::JobModel zero = model_, minus = model_;
  zero.rows[key][0] = 0.f;
  minus.rows[key][0] = -0.f;
  EXPECT_THAT(
      Diff(Whole("diff_zero", zero, 1, 8), Whole("diff_minus", minus, 1, 8)),
      ElementsAre(HasSubstr("embedding[0]: 0 in the first, -0")));
  // Dense steps are the cut's number in these checkpoints.
  EXPECT_THAT(Diff(a, Whole("diff_steps", model_, 1, 8, 4))[0],
              HasSubstr("has counted 3 steps in the first, 4"));
}

TEST_F(CheckpointDiffTest, AnotherConfigurationIsADifference) {
  const std::string a = Whole("diff_config_a", model_, 1, 8);
  pserver::CheckpointMaker b(storage::FreshFolder("diff_config_b"), 1, 8);
  ASSERT_TRUE(b.Make(3, model_).ok());
  b.manifest().mutable_tables(0)->mutable_sparse()->set_memory_budget_bytes(
      uint64_t{1} << 30);
  ASSERT_TRUE(b.Commit().ok());
  EXPECT_THAT(Diff(a, b.path()), IsEmpty());
  b.manifest().mutable_tables(0)->mutable_optimizer()->set_learning_rate(.2f);
  ASSERT_TRUE(b.Commit().ok());
  EXPECT_THAT(Diff(a, b.path()),
              ElementsAre(HasSubstr("table 1 (slots) has another")));
}

TEST_F(CheckpointDiffTest, ExportedRowsReadBackWithTheirBits) {
  model_.rows[5] = {1.f / 3,
                    std::numeric_limits<float>::denorm_min(),
                    std::numeric_limits<float>::max(),
                    -0.f,
                    1e-20f,
                    16777217.f};
  const OpenCheckpoint open = Open(Whole("export", model_, 2, 8));
  const std::string file = storage::FreshFolder("rows.txt");
  const auto num_rows = ExportRows(open, "slots", file);
  ASSERT_TRUE(num_rows.ok()) << num_rows.status();
  EXPECT_EQ(*num_rows, model_.rows.size());
  std::map<uint64_t, std::vector<float>> read;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    uint64_t key;
    words >> key;
    for (std::string word; words >> word;) {
      read[key].push_back(std::strtof(word.c_str(), nullptr));
    }
  }
  ASSERT_EQ(read.size(), model_.rows.size());
  for (const auto& [key, row] : model_.rows) {
    ASSERT_EQ(read[key].size(), row.size());
    EXPECT_EQ(std::memcmp(read[key].data(), row.data(), 4 * row.size()), 0);
  }
  EXPECT_EQ(ExportRows(open, "dense", file).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace oarlock::checkpoint
