#include "data/synthetic/criteo_generator.h"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "data/order/example_reader.h"
#include "data/order/source_index.h"
#include "data/reader/file_list.h"
#include "data/synthetic/criteo_world.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

using ::testing::HasSubstr;

struct Generated {
  std::string text;  // all files, one behind the other
  GeneratorReport report;
  size_t num_files = 0;
};

Generated Generate(GeneratorOptions options) {
  TestFolder folder;
  options.out_dir = folder.Path("out/of/it");
  const auto report = GenerateCriteo(options);
  EXPECT_TRUE(report.ok()) << report.status();
  Generated generated;
  if (!report.ok()) return generated;
  generated.report = *report;
  const auto files = ExpandFileList(options.out_dir);
  EXPECT_TRUE(files.ok()) << files.status();
  for (const std::string& file : *files) generated.text += ReadAll(file);
  generated.num_files = files->size();
  EXPECT_EQ(generated.report.bytes, generated.text.size());
  return generated;
}

TEST(CriteoGeneratorTest, RowsDependOnTheSeedAloneNotOnFilesAndThreads) {
  const Generated one = Generate({.rows = 20'011, .files = 1, .threads = 1});
  const Generated three = Generate({.rows = 20'011, .files = 3, .threads = 4});
  EXPECT_EQ(three.num_files, 3u);
  EXPECT_TRUE(one.text == three.text);
  EXPECT_EQ(one.report.best_auc, three.report.best_auc);
  EXPECT_EQ(one.report.linear_logloss, three.report.linear_logloss);
  // A shorter run is the beginning of a longer one.
  const Generated shorter = Generate({.rows = 100, .files = 2, .threads = 2});
  EXPECT_TRUE(one.text.starts_with(shorter.text));
  const Generated other = Generate({.rows = 100, .files = 2, .seed = 2});
  EXPECT_FALSE(one.text.starts_with(other.text));
}

TEST(CriteoGeneratorTest, EveryRowIsAWellFormedLine) {
  TestFolder folder;
  ASSERT_TRUE(GenerateCriteo({.rows = 20'000,
                              .files = 2,
                              .seed = 3,
                              .out_dir = folder.path(),
                              .threads = 2})
                  .ok());
  const auto files = ExpandFileList(folder.Path("part-*"));
  SharedList ranges(WholeFileItems(files->size()));
  BadLines bad_lines;
  BatchReader reader(DataOptions{.bad_lines_max = 0}, *files, &ranges,
                     &bad_lines);
  Batch batch;
  const auto more = reader.Next(30'000, &batch);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(batch.num_examples, 20'000u);
}

TEST(CriteoGeneratorTest, LinearModelLiesWellBelowTheBest) {
  for (const uint64_t seed : {1, 2}) {
    const GeneratorReport report =
        Generate({.rows = 50'000, .files = 1, .seed = seed, .threads = 2})
            .report;
    EXPECT_EQ(report.rows, 50'000u);
    EXPECT_NEAR(report.ctr, 0.256, 0.01) << seed;
    EXPECT_GT(report.best_auc, 0.78) << seed;
    EXPECT_LT(report.best_auc, 0.85) << seed;
    EXPECT_GT(report.linear_auc, 0.70) << seed;
    EXPECT_LT(report.linear_auc, report.best_auc - 0.04) << seed;
    EXPECT_GT(report.linear_logloss, report.best_logloss + 0.02) << seed;
  }
}

TEST(CriteoGeneratorTest, ColumnsLookLikeTheRealOnes) {
  constexpr int kRows = 50'000;
  const Generated generated =
      Generate({.rows = kRows, .files = 1, .threads = 2});
  std::vector<int> missing(40);
  std::vector<std::set<std::string>> values(40);
  for (const absl::string_view line :
       absl::StrSplit(generated.text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    ASSERT_EQ(fields.size(), 40u);
    for (int i = 0; i < 40; ++i) {
      missing[i] += fields[i].empty();
      values[i].insert(fields[i]);
    }
  }
  EXPECT_NEAR(missing[1], 0.4509 * kRows, 0.01 * kRows);   // I1
  EXPECT_NEAR(missing[2], 0, 0.5);                         // I2
  EXPECT_NEAR(missing[32], 0.4418 * kRows, 0.01 * kRows);  // C19
  EXPECT_GT(values[16].size(), 20'000u);                   // C3
  EXPECT_LT(values[22].size(), 4u);                        // C9
  EXPECT_GT(values[15].size(), 400u);                      // C2
  EXPECT_LE(values[15].size(), 583u);
}

TEST(CriteoGeneratorTest, ValuesOfAColumnAreDistinct) {
  std::set<uint32_t> values;
  for (int64_t rank = 0; rank < 100'000; ++rank) {
    values.insert(CriteoWorld::Value(3, rank));
  }
  EXPECT_EQ(values.size(), 100'000u);
}

TEST(CriteoGeneratorTest, PartsOfALargerRunAreNotMixedWithNewOnes) {
  TestFolder folder;
  GeneratorOptions options{.rows = 10, .files = 3, .out_dir = folder.path()};
  ASSERT_TRUE(GenerateCriteo(options).ok());
  // The same again replaces all of them.
  ASSERT_TRUE(GenerateCriteo(options).ok());
  options.files = 2;
  const auto report = GenerateCriteo(options);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(report.status().message(), HasSubstr("part-2"));
}

TEST(CriteoGeneratorTest, UnwritableFolderIsAnErrorAndLeavesNothing) {
  TestFolder folder;
  const std::string file = folder.Write("file", "");
  EXPECT_FALSE(GenerateCriteo({.rows = 10, .files = 1, .out_dir = file}).ok());
  EXPECT_FALSE(
      GenerateCriteo({.rows = 10, .files = 1, .out_dir = file + "/x"}).ok());
}

TEST(GeneratorOptionsTest, ValidateNamesTheOptionThatIsOutOfRange) {
  const GeneratorOptions good{.rows = 10, .files = 1, .out_dir = "x"};
  EXPECT_TRUE(good.Validate().ok());
  const auto message = [&](auto change) {
    GeneratorOptions options = good;
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_THAT(message([](auto& o) { o.files = 0; }), HasSubstr("files is 0"));
  EXPECT_THAT(message([](auto& o) { o.rows = 0; }), HasSubstr("rows is 0"));
  EXPECT_THAT(message([](auto& o) { o.threads = 0; }),
              HasSubstr("threads is 0"));
  EXPECT_THAT(message([](auto& o) { o.out_dir = ""; }), HasSubstr("out_dir"));
}

}  // namespace
}  // namespace oarlock::data
