#include "optim/initializer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace oarlock::optim {
namespace {

v1::Initializer Uniform(float range) {
  v1::Initializer config;
  config.set_uniform_range(range);
  return config;
}
v1::Initializer Normal(float stddev) {
  v1::Initializer config;
  config.set_normal_stddev(stddev);
  return config;
}

InitialValues Values(const v1::Initializer& config, uint64_t seed = 1,
                     uint32_t table = 1) {
  absl::StatusOr<InitialValues> values =
      InitialValues::Create(config, seed, TableId(table));
  EXPECT_TRUE(values.ok()) << values.status();
  return *values;
}

std::vector<float> Row(const InitialValues& values, uint64_t key, size_t dim) {
  std::vector<float> row(dim);
  values.FillRow(Key{key}, row.data(), dim);
  return row;
}

double Mean(const std::vector<float>& values) {
  double sum = 0;
  for (float v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double MeanSquare(const std::vector<float>& values) {
  double sum = 0;
  for (float v : values) sum += double{v} * v;
  return sum / static_cast<double>(values.size());
}

TEST(InitialValuesTest, NothingConfiguredIsZero) {
  EXPECT_EQ(Row(Values({}), 7, 3), std::vector<float>(3, 0.0f));
}

TEST(InitialValuesTest, ConstantFillsEveryFloat) {
  v1::Initializer config;
  config.set_constant(-2.5f);
  EXPECT_EQ(Row(Values(config), 7, 5), std::vector<float>(5, -2.5f));
}

TEST(InitialValuesTest, UniformKeepsItsRangeMeanAndVariance) {
  const std::vector<float> row = Row(Values(Uniform(0.01f)), 42, 200000);
  for (const float v : row) {
    ASSERT_GE(v, -0.01f);
    ASSERT_LT(v, 0.01f);
  }
  EXPECT_NEAR(Mean(row), 0, 1e-4);
  EXPECT_NEAR(MeanSquare(row) / (0.01 * 0.01 / 3), 1, 0.02);
}

TEST(InitialValuesTest, NormalKeepsItsMeanAndVariance) {
  const std::vector<float> row = Row(Values(Normal(0.5f)), 42, 200000);
  EXPECT_NEAR(Mean(row), 0, 0.01);
  EXPECT_NEAR(MeanSquare(row) / 0.25, 1, 0.02);
}

TEST(InitialValuesTest, ARowOfLessDimensionsIsAPrefix) {
  for (const v1::Initializer& config : {Uniform(1), Normal(1)}) {
    const std::vector<float> long_row = Row(Values(config), 3, 17);
    for (size_t dim = 0; dim < 17; ++dim) {
      EXPECT_EQ(Row(Values(config), 3, dim),
                std::vector<float>(long_row.begin(), long_row.begin() + dim));
    }
  }
}

TEST(InitialValuesTest, ARangeIsTheSameHoweverItIsCut) {
  constexpr size_t kSize = 23;
  for (const v1::Initializer& config : {Uniform(1), Normal(1)}) {
    const InitialValues values = Values(config);
    std::vector<float> whole(kSize);
    values.FillRange(100, whole.data(), kSize);
    for (size_t cut = 0; cut <= kSize; ++cut) {
      std::vector<float> parts(kSize);
      values.FillRange(100, parts.data(), cut);
      values.FillRange(100 + cut, parts.data() + cut, kSize - cut);
      EXPECT_EQ(parts, whole) << "cut at " << cut;
    }
  }
}

TEST(InitialValuesTest, SeedTableAndKeyEachMatter) {
  const std::vector<float> row = Row(Values(Uniform(1)), 3, 4);
  EXPECT_EQ(Row(Values(Uniform(1)), 3, 4), row);
  EXPECT_NE(Row(Values(Uniform(1), 2), 3, 4), row);
  EXPECT_NE(Row(Values(Uniform(1), 1, 2), 3, 4), row);
  EXPECT_NE(Row(Values(Uniform(1)), 4, 4), row);
}

// A change of these numbers would change every job's initial values.
TEST(InitialValuesTest, ValuesAreThoseOfTheDocumentedStream) {
  const uint64_t table_stream = DeriveSeed(1, 1);
  const uint64_t stream = DeriveSeed(table_stream, ~uint64_t{0});
  const std::vector<float> row = Row(Values(Uniform(1)), ~uint64_t{0}, 2);
  const uint64_t bits = RandomBits(stream, 0);
  const double low = static_cast<double>((bits & 0xffffffffu) >> 8);
  const double high = static_cast<double>(bits >> 40);
  EXPECT_EQ(row[0], (low - 8388608.0) / 8388608.0);
  EXPECT_EQ(row[1], (high - 8388608.0) / 8388608.0);
  EXPECT_EQ(Row(Values(Normal(2)), ~uint64_t{0}, 2)[1],
            2 * RandomNormal(stream, 1));
}

TEST(InitialValuesTest, RowsOfManyKeysDiffer) {
  const InitialValues values = Values(Uniform(1));
  std::set<std::vector<float>> rows;
  for (uint64_t key = 0; key < 1000; ++key) {
    rows.insert(Row(values, key, 4));
    rows.insert(Row(values, ~key, 4));
  }
  EXPECT_EQ(rows.size(), 2000u);
}

TEST(InitialValuesTest, WhatIsOutOfRangeIsRefusedByName) {
  const auto refused = [](const v1::Initializer& config,
                          const std::string& name) {
    const absl::Status status =
        InitialValues::Create(config, 1, TableId(1)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  };
  refused(Uniform(-1), "uniform_range");
  refused(Normal(std::numeric_limits<float>::infinity()), "normal_stddev");
  v1::Initializer config;
  config.set_constant(std::numeric_limits<float>::quiet_NaN());
  refused(config, "constant");
}

}  // namespace
}  // namespace oarlock::optim
