#include "checkpoint/row_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/random.h"
#include "tests/optim/rule_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::checkpoint {
namespace {

constexpr uint64_t kSeed = 43;
constexpr uint32_t kDim = 5;

// What a row of a table may have beside its embedding.
enum class Parts {
  kNone,
  kStatistics,
  // Created when a row's score says so.
  kLateExtended,
  // Of every row, under a rule of its own.
  kExtended,
};

sparse_table::RowRules RulesOf(const v1::OptimizerConfig& rule,
                               const v1::OptimizerConfig& other, Parts parts) {
  v1::TableConfig config = pserver::SparseConfig(kDim, 0.1f);
  *config.mutable_optimizer() = rule;
  v1::SparseTableConfig& sparse = *config.mutable_sparse();
  if (parts >= Parts::kStatistics) sparse.set_accessor(v1::CTR);
  if (parts >= Parts::kLateExtended) sparse.set_extended_dim(2);
  if (parts == Parts::kLateExtended) sparse.set_extended_threshold(1.5f);
  if (parts == Parts::kExtended) *sparse.mutable_extended_optimizer() = other;
  const auto rules =
      sparse_table::RowRules::Create(config, pserver::kTestPartitionBits);
  EXPECT_TRUE(rules.ok()) << rules.status();
  return *rules;
}

// Any bits that the row's text can have: all floats but NaNs with a payload.
std::vector<std::byte> RandomRow(const sparse_table::RowRules& rules,
                                 const RowText& text, RandomSequence& random) {
  const sparse_table::RowLayout& layout = rules.layout();
  std::vector<std::byte> row(layout.row_bytes());
  sparse_table::RowLayout::Header(row.data()).key = Key{random()};
  const auto fill = [&](float* values, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      do {
        const auto bits = static_cast<uint32_t>(random());
        std::memcpy(&values[i], &bits, sizeof(bits));
      } while (values[i] != values[i]);
    }
  };
  fill(layout.Embedding(row.data()), layout.dim());
  fill(layout.State(row.data()), layout.state_size());
  if (layout.has_statistics()) {
    layout.Statistics(row.data())[0] = static_cast<float>(random.Uniform());
    layout.Statistics(row.data())[1] = static_cast<float>(random.Below(9));
  }
  if (rules.extended_dim() != 0) {
    // As a new row's; then half of them are created.
    const std::vector<std::byte> filled = row;
    rules.BeginExtended(row.data());
    if (random.Below(2) == 0) {
      row = filled;
      sparse_table::RowLayout::Header(row.data()).packed |=
          sparse_table::RowHeader::kExtended;
    }
  }
  std::vector<std::byte> packed(text.format().row_bytes());
  text.format().Pack(row.data(), packed.data());
  return packed;
}

TEST(RowTextTest, ARowComesBackWithItsBitsUnderEveryRule) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  const std::vector<v1::OptimizerConfig> rules = optim::OneOfEachRule();
  for (size_t r = 0; r < rules.size(); ++r) {
    for (const Parts parts : {Parts::kNone, Parts::kStatistics,
                              Parts::kLateExtended, Parts::kExtended}) {
      SCOPED_TRACE(testing::Message() << rules[r].ShortDebugString()
                                      << " parts " << static_cast<int>(parts));
      const sparse_table::RowRules row_rules =
          RulesOf(rules[r], rules[(r + 3) % rules.size()], parts);
      const RowText text(row_rules);
      std::set<size_t> widths;
      for (int i = 0; i < 50; ++i) {
        const std::vector<std::byte> row = RandomRow(row_rules, text, random);
        std::string line;
        text.Append(row.data(), &line);
        ASSERT_EQ(line.back(), '\n');
        line.pop_back();
        widths.insert(std::count(line.begin(), line.end(), ' '));
        std::vector<std::byte> read(row.size());
        const absl::Status parsed = text.Parse(line, read.data());
        ASSERT_TRUE(parsed.ok()) << parsed;
        ASSERT_EQ(read, row) << line;
      }
      EXPECT_EQ(widths.size(), parts == Parts::kLateExtended ? 2u : 1u);
    }
  }
}

TEST(RowTextTest, ShowAndClickAreCounts) {
  const auto rules = optim::OneOfEachRule();
  const RowText text(RulesOf(rules[0], rules[0], Parts::kStatistics));
  std::vector<std::byte> packed(text.format().row_bytes());
  EXPECT_TRUE(text.Parse("7 1.5 0 1 2 3 4 5", packed.data()).ok());
  for (const char* const line :
       {"7 -1 0 1 2 3 4 5", "7 1 nan 1 2 3 4 5", "7 inf 0 1 2 3 4 5"}) {
    const absl::Status status = text.Parse(line, packed.data());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << line;
    EXPECT_NE(status.message().find("legal is a number of at least 0"),
              absl::string_view::npos)
        << status;
  }
}

}  // namespace
}  // namespace oarlock::checkpoint
