// Pulls and pushes of every shape and rule against a map. All rules of rows
// together: row_rules_model_test.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "optim/initializer.h"
#include "optim/rules.h"
#include "sparse_table/sparse_table.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

// A plain table: one map, one key at a time, every sequence remembered.
class ModelTable {
 public:
  struct Row {
    std::vector<float> embedding;
    std::vector<float> state;
    float show = 0;
    float click = 0;
    uint64_t version = 0;
    uint32_t last_touch = 0;
  };

  explicit ModelTable(const v1::TableConfig& config)
      : dim_(config.sparse().dim()),
        rule_(*optim::UpdateRule::Create(config.optimizer())),
        initial_(*optim::InitialValues::Create(config.sparse().initializer(),
                                               config.seed(),
                                               TableId(config.id()))) {}

  std::vector<float> Pull(Key key) const {
    const auto row = rows_.find(key);
    if (row != rows_.end()) return row->second.embedding;
    std::vector<float> values(dim_);
    initial_.FillRow(key, values.data(), dim_);
    return values;
  }

  uint32_t Push(const SparsePush& push) {
    uint32_t num_duplicates = 0;
    size_t i = 0;
    for (const KeyGroup& group : push.groups) {
      auto& applied = applied_[group.partition];
      bool all = !push.stamps.empty();
      for (const PushStamp& stamp : push.stamps) {
        all &= applied.count({stamp.worker.value(), stamp.generation.value(),
                              stamp.sequence.value()}) > 0;
      }
      if (all) {
        ++num_duplicates;
        i += group.num_keys;
        continue;
      }
      const uint64_t version = ++versions_[group.partition];
      for (uint32_t k = 0; k < group.num_keys; ++k, ++i) {
        UpdateRow(push, i, version);
      }
      for (const PushStamp& stamp : push.stamps) {
        applied.insert({stamp.worker.value(), stamp.generation.value(),
                        stamp.sequence.value()});
      }
    }
    return num_duplicates;
  }

  uint64_t version(PartitionIndex partition) { return versions_[partition]; }
  const std::map<Key, Row>& rows() const { return rows_; }

 private:
  void UpdateRow(const SparsePush& push, size_t i, uint64_t version) {
    const Key key = push.keys[i];
    auto [entry, is_new] = rows_.try_emplace(key);
    Row& row = entry->second;
    if (is_new) {
      row.embedding.resize(dim_);
      initial_.FillRow(key, row.embedding.data(), dim_);
      row.state.resize(rule_.StateSize(dim_));
      rule_.InitState(row.state.data(), dim_);
    }
    rule_.Apply(version, row.embedding.data(), row.state.data(),
                push.gradients + i * dim_, dim_);
    if (push.shows != nullptr) row.show += push.shows[i];
    if (push.clicks != nullptr) row.click += push.clicks[i];
    row.version = version;
    row.last_touch = push.logical_time;
  }

  const size_t dim_;
  const optim::UpdateRule rule_;
  const optim::InitialValues initial_;
  std::map<Key, Row> rows_;
  std::map<PartitionIndex, uint64_t> versions_;
  std::map<PartitionIndex, std::set<std::tuple<uint32_t, uint64_t, uint64_t>>>
      applied_;
};

void ExpectSameRows(const SparseTable& table, const ModelTable& model,
                    bool has_statistics, int partition_bits) {
  size_t num_rows = 0;
  const absl::Status visited = table.ForEachRow(
      [&](PartitionIndex partition, const SparseTable::RowView& view) {
        ++num_rows;
        ASSERT_EQ(partition, PartitionOfMix(Mix(view.key), partition_bits));
        const auto found = model.rows().find(view.key);
        ASSERT_NE(found, model.rows().end())
            << "key " << static_cast<uint64_t>(view.key);
        const ModelTable::Row& row = found->second;
        ASSERT_EQ(row.embedding, std::vector<float>(view.embedding.begin(),
                                                    view.embedding.end()));
        ASSERT_EQ(row.state,
                  std::vector<float>(view.state.begin(), view.state.end()));
        ASSERT_EQ(view.version, row.version);
        ASSERT_EQ(view.last_touch, row.last_touch);
        ASSERT_EQ(view.show, has_statistics ? row.show : 0);
        ASSERT_EQ(view.click, has_statistics ? row.click : 0);
      });
  EXPECT_TRUE(visited.ok()) << visited;
  EXPECT_EQ(num_rows, model.rows().size());
  EXPECT_EQ(table.Stats().rows, model.rows().size());
}

struct Shape {
  uint32_t dim;
  int rule;  // 0 sgd, 1 adagrad, 2 adam, 3 ftrl, 4 lazy adam with options
  v1::Accessor accessor;
  int partition_bits;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << "dim " << shape.dim << ", rule " << shape.rule << ", accessor "
       << v1::Accessor_Name(shape.accessor) << ", partition bits "
       << shape.partition_bits;
}

class SparseTableModelTest : public testing::TestWithParam<Shape> {
 protected:
  static v1::TableConfig Config() {
    const v1::OptimizerConfig optimizers[] = {
        SgdOptimizer(0.1f), AdagradOptimizer(), AdamOptimizer(),
        FtrlOptimizer(), LazyAdamWithOptions()};
    return SparseConfig(GetParam().dim, optimizers[GetParam().rule],
                        GetParam().accessor);
  }
};

// Bitwise: the model applies the same rule to rows of its own.
TEST_P(SparseTableModelTest, RandomPullsAndPushesAgreeWithAMap) {
  constexpr uint64_t kSeed = 99;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const int bits = GetParam().partition_bits;
  const v1::TableConfig config = Config();
  const size_t dim = GetParam().dim;
  absl::StatusOr<std::unique_ptr<SparseTable>> made =
      SparseTable::Create(config, bits, {.memory_bytes_max = 1 << 30});
  ASSERT_TRUE(made.ok()) << made.status();
  const std::unique_ptr<SparseTable> table = *std::move(made);
  ModelTable model(config);
  RandomSequence random(kSeed);
  std::vector<uint64_t> next_sequence(3, 1);
  uint64_t num_pulled = 0;
  for (int step = 0; step < 120; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    // Few keys come often, many seldom; the extremes are keys like others.
    std::set<Key> chosen;
    const size_t num_keys = random.Below(1 + random.Below(700));
    while (chosen.size() < num_keys) {
      chosen.insert(Key{random.Below(2) ? random.Below(500) : random()});
    }
    if (random.Below(2) == 0) {
      chosen.insert(Key{0});
      chosen.insert(Key{~uint64_t{0}});
    }
    std::vector<Key> keys(chosen.begin(), chosen.end());
    if (random.Below(3) == 0) {
      for (int i = 0; i < 20 && !keys.empty(); ++i) {
        keys.push_back(keys[random.Below(keys.size())]);
      }
      const GroupedKeys grouped = Grouped(keys, bits);
      std::vector<float> values(keys.size() * dim, -1);
      std::vector<uint64_t> versions(grouped.groups.size());
      EXPECT_TRUE(table
                      ->Pull(grouped.groups, grouped.keys.data(), values.data(),
                             versions.data())
                      .ok());
      num_pulled += keys.size();
      for (size_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(std::vector<float>(values.begin() + i * dim,
                                     values.begin() + (i + 1) * dim),
                  model.Pull(grouped.keys[i]));
      }
      for (size_t g = 0; g < versions.size(); ++g) {
        ASSERT_EQ(versions[g], model.version(grouped.groups[g].partition));
      }
      continue;
    }
    const GroupedKeys grouped = Grouped(keys, bits);
    std::vector<float> gradients(keys.size() * dim), shows(keys.size()),
        clicks(keys.size());
    for (float& g : gradients) g = static_cast<float>(random.Uniform() - 0.5);
    for (float& s : shows) s = static_cast<float>(random.Below(4));
    for (float& c : clicks) c = static_cast<float>(random.Below(2));
    SparsePush push;
    push.groups = grouped.groups;
    push.keys = grouped.keys.data();
    push.gradients = gradients.data();
    if (random.Below(2) == 0) push.shows = shows.data();
    if (random.Below(2) == 0) push.clicks = clicks.data();
    push.logical_time = 3 * step;
    // One stamp, or those of a round of all workers; some are repeated.
    std::vector<PushStamp> stamps;
    for (uint32_t worker = 0; worker < 3; ++worker) {
      if (worker > 0 && step % 4 != 0) continue;
      const bool repeats = next_sequence[worker] > 1 && random.Below(3) == 0;
      stamps.push_back(
          Stamp(worker, 1,
                repeats ? next_sequence[worker] - 1 : next_sequence[worker]++));
    }
    push.stamps = stamps;
    absl::StatusOr<SparsePushResult> result = table->Push(push);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->duplicate_groups, model.Push(push));
    for (const KeyGroup& group : grouped.groups) {
      ASSERT_TRUE(table->HasApplied(group.partition, stamps[0]));
    }
  }
  ExpectSameRows(*table, model, GetParam().accessor == v1::CTR, bits);
  EXPECT_EQ(table->Stats().pulled_rows, num_pulled);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, SparseTableModelTest,
    testing::Values(Shape{1, 0, v1::PLAIN, 4}, Shape{3, 1, v1::CTR, 4},
                    Shape{3, 2, v1::PLAIN, 0}, Shape{8, 1, v1::CTR, 2},
                    Shape{10, 0, v1::CTR, 8}, Shape{10, 2, v1::PLAIN, 8},
                    Shape{16, 0, v1::PLAIN, 0}, Shape{16, 1, v1::PLAIN, 8},
                    Shape{16, 1, v1::CTR, 3}, Shape{16, 2, v1::CTR, 11},
                    Shape{32, 1, v1::PLAIN, 1}, Shape{64, 2, v1::PLAIN, 5},
                    Shape{64, 1, v1::PLAIN, 12}, Shape{1, 3, v1::PLAIN, 8},
                    Shape{16, 3, v1::CTR, 4}, Shape{10, 4, v1::PLAIN, 6}));

}  // namespace
}  // namespace oarlock::sparse_table
