// What a table with a memory budget promises beyond the models
// (row_rules_model_test, concurrency_test): the budget is kept, nothing changes
// but where rows are, and a disk that fails is an error and never a value.

#include "sparse_table/tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "sparse_table/sparse_table.h"
#include "tests/base/eventually.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::sparse_table {
namespace {

using ::testing::HasSubstr;

constexpr int kBits = 2;
constexpr uint32_t kDim = 16;

std::string FreshDirectory() {
  static int num_directories = 0;
  return testing::TempDir() + "/tier_test_" + std::to_string(num_directories++);
}

std::unique_ptr<SparseTable> MakeTable(const v1::TableConfig& config,
                                       const SparseTableOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, kBits, options);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

GroupedKeys KeysFrom(uint64_t first, size_t num_keys) {
  std::vector<Key> keys;
  for (uint64_t i = 0; i < num_keys; ++i) keys.push_back(Key{first + i});
  return Grouped(std::move(keys), kBits);
}

// Gradients differ from key to key and push to push.
absl::Status Push(const GroupedKeys& keys, uint64_t sequence,
                  SparseTable* table) {
  const uint32_t dim = table->config().sparse().dim();
  std::vector<float> gradients;
  for (const Key key : keys.keys) {
    for (uint32_t d = 0; d < dim; ++d) {
      gradients.push_back(static_cast<float>(RandomUniform(
                              sequence, static_cast<uint64_t>(key) * dim + d)) -
                          0.5f);
    }
  }
  const PushStamp stamp = Stamp(0, 1, sequence);
  SparsePush push;
  push.groups = keys.groups;
  push.keys = keys.keys.data();
  push.gradients = gradients.data();
  push.stamps = {&stamp, 1};
  push.logical_time = static_cast<uint32_t>(sequence);
  return table->Push(push).status();
}

absl::Status Pull(const GroupedKeys& keys, const SparseTable& table,
                  std::vector<float>* values) {
  values->resize(keys.keys.size() * table.config().sparse().dim());
  return table.Pull(keys.groups, keys.keys.data(), values->data(), nullptr);
}

using Rows = std::map<Key, std::tuple<uint64_t, uint32_t, std::vector<float>,
                                      std::vector<float>>>;
Rows RowsOf(const SparseTable& table) {
  Rows rows;
  const absl::Status visited =
      table.ForEachRow([&](PartitionIndex, const SparseTable::RowView& row) {
        const bool is_new =
            rows.try_emplace(
                    row.key, row.version, row.last_touch,
                    std::vector<float>(row.embedding.begin(),
                                       row.embedding.end()),
                    std::vector<float>(row.state.begin(), row.state.end()))
                .second;
        EXPECT_TRUE(is_new) << "visited twice";
      });
  EXPECT_TRUE(visited.ok()) << visited;
  return rows;
}

class TierRulesTest : public testing::TestWithParam<v1::OptimizerConfig> {};

// A skewed stream of keys, ten times what there is memory for.
TEST_P(TierRulesTest, ATableTenTimesItsBudgetTrainsToTheSameBits) {
  constexpr uint64_t kSeed = 5;
  constexpr uint64_t kKeySpace = 40'000;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  v1::TableConfig config = SparseConfig(kDim, GetParam());
  const std::unique_ptr<SparseTable> in_memory = MakeTable(config);
  const uint64_t budget = kKeySpace * in_memory->Stats().row_bytes / 10;
  config.mutable_sparse()->set_memory_budget_bytes(budget);
  const std::unique_ptr<SparseTable> tiered =
      MakeTable(config, {.tier_directory = FreshDirectory()});
  RandomSequence random(kSeed);
  std::vector<float> expected, values;
  for (uint64_t step = 1; step <= 400; ++step) {
    std::set<Key> chosen;
    for (int i = 0; i < 1000; ++i) {
      const double u = random.Uniform();
      chosen.insert(Key{static_cast<uint64_t>(u * u * kKeySpace)});
    }
    const GroupedKeys keys =
        Grouped(std::vector<Key>(chosen.begin(), chosen.end()), kBits);
    ASSERT_TRUE(Pull(keys, *in_memory, &expected).ok());
    ASSERT_TRUE(Pull(keys, *tiered, &values).ok());
    ASSERT_EQ(values, expected) << "step " << step;
    ASSERT_TRUE(Push(keys, step, in_memory.get()).ok());
    ASSERT_TRUE(Push(keys, step, tiered.get()).ok());
    ASSERT_LE(tiered->Stats().bytes, budget) << "step " << step;
  }
  EXPECT_EQ(RowsOf(*tiered), RowsOf(*in_memory));
  const SparseTableStats stats = tiered->Stats();
  EXPECT_EQ(stats.rows, in_memory->Stats().rows);
  EXPECT_GT(stats.cold_rows, stats.rows * 8 / 10);
  EXPECT_GT(stats.promoted_rows, 10'000u);
  EXPECT_GT(stats.demoted_rows, stats.promoted_rows);
}

INSTANTIATE_TEST_SUITE_P(Rules, TierRulesTest,
                         testing::Values(AdagradOptimizer(), AdamOptimizer(),
                                         LazyAdamWithOptions()));

TEST(TierBudgetTest, LessThanAChunkAPartitionIsRefusedWithWhatIsLegal) {
  v1::TableConfig config = SparseConfig(kDim, AdagradOptimizer());
  config.mutable_sparse()->set_memory_budget_bytes(100'000);
  const absl::Status status =
      SparseTable::Create(config, kBits, {.tier_directory = FreshDirectory()})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  // 65,536 bytes of 455 rows, and 64 / (10 * .6 / 2) bytes of index for each.
  const uint64_t least = 4 * (65'536 + 455 * 64 / 3);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("memory_budget_bytes is 100000; legal is 0 or at "
                        "least " +
                        std::to_string(least)));
  config.mutable_sparse()->set_memory_budget_bytes(least);
  EXPECT_TRUE(
      SparseTable::Create(config, kBits, {.tier_directory = FreshDirectory()})
          .ok());
}

TEST(TierBudgetTest, ABudgetNeedsADirectoryOfOurs) {
  v1::TableConfig config = SparseConfig(kDim, AdagradOptimizer());
  config.mutable_sparse()->set_memory_budget_bytes(1 << 20);
  EXPECT_EQ(SparseTable::Create(config, kBits).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const std::string directory = FreshDirectory();
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/thesis") << "ten years";
  const absl::Status status =
      SparseTable::Create(config, kBits, {.tier_directory = directory})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(directory));
}

// A few rows of a partition in memory, the others on disk.
struct SmallTier {
  explicit SmallTier(size_t memory_rows, uint32_t dim = kDim) {
    v1::TableConfig config = SparseConfig(dim, AdagradOptimizer());
    in_memory = MakeTable(config);
    const SparseTableOptions options = WithTiers(memory_rows, &config);
    directory = options.tier_directory;
    tiered = MakeTable(config, options);
  }
  void PushBoth(const GroupedKeys& keys) {
    ++sequence;
    ASSERT_TRUE(Push(keys, sequence, in_memory.get()).ok());
    const absl::Status status = Push(keys, sequence, tiered.get());
    ASSERT_TRUE(status.ok()) << status;
  }

  std::string directory;
  std::unique_ptr<SparseTable> in_memory;
  std::unique_ptr<SparseTable> tiered;
  uint64_t sequence = 0;
};

TEST(TierTest, AGroupBeyondTheQuotaIsAppliedAndPulledAsAWhole) {
  SmallTier tables(3);
  std::vector<float> expected, values;
  for (int round = 0; round < 4; ++round) {
    for (const uint64_t first : {0, 700, 300}) {
      // The last one asks for more at once than one read takes.
      const GroupedKeys keys = KeysFrom(first, round == 3 ? 20'000 : 500);
      tables.PushBoth(keys);
      ASSERT_TRUE(Pull(keys, *tables.in_memory, &expected).ok());
      ASSERT_TRUE(Pull(keys, *tables.tiered, &values).ok());
      ASSERT_EQ(values, expected);
    }
  }
  EXPECT_EQ(RowsOf(*tables.tiered), RowsOf(*tables.in_memory));
}

TEST(TierTest, APullMayNameAKeyTwiceAndKeysThatHaveNoRow) {
  SmallTier tables(5);
  tables.PushBoth(KeysFrom(0, 100));
  tables.PushBoth(KeysFrom(1000, 100));
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 150; ++i) {
    keys.push_back(Key{i});
    keys.push_back(Key{i / 2});
    keys.push_back(Key{i});
  }
  const GroupedKeys grouped = Grouped(keys, kBits);
  std::vector<float> expected, values;
  ASSERT_TRUE(Pull(grouped, *tables.in_memory, &expected).ok());
  ASSERT_TRUE(Pull(grouped, *tables.tiered, &values).ok());
  EXPECT_EQ(values, expected);
  EXPECT_EQ(tables.tiered->Stats().rows, 200u) << "a pull makes no row";
}

TEST(TierTest, AnEvictionIsDoneAgainByItsKeys) {
  SmallTier tables(20);
  tables.PushBoth(KeysFrom(0, 3000));
  tables.PushBoth(KeysFrom(2000, 2000));
  v1::EvictionConfig config;
  config.set_idle_ticks(1);
  const EvictionLimits limits = *tables.tiered->LimitsOf(config);
  ASSERT_GT(tables.tiered->Stats().cold_rows, 0u);
  for (uint32_t p = 0; p < tables.tiered->num_partitions(); ++p) {
    const PartitionIndex partition(p);
    std::vector<std::vector<Key>> steps;
    const absl::StatusOr<EvictionResult> result = tables.tiered->Evict(
        partition, limits, /*logical_time=*/2, [&](EvictionStep& step) {
          const absl::StatusOr<absl::Span<const Key>> keys = step.Choose();
          if (!keys.ok()) return keys.status();
          EXPECT_LE(keys->size(), size_t{kCellsPerHold});
          steps.emplace_back(keys->begin(), keys->end());
          return step.Erase();
        });
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(steps.front().empty()) << "the first one tells the time";
    // The same on a table whose rows are elsewhere, and once more for keys
    // that have no row any longer.
    for (const std::vector<Key>& keys : steps) {
      for (int time = 0; time < 2; ++time) {
        ASSERT_TRUE(tables.in_memory->EvictKeys(partition, keys, 2).ok());
      }
    }
  }
  EXPECT_EQ(tables.in_memory->Stats().rows, 2000u);
  EXPECT_EQ(RowsOf(*tables.tiered), RowsOf(*tables.in_memory));
  // And the other way round.
  const GroupedKeys left = KeysFrom(2000, 2000);
  for (SparseTable* table : {tables.tiered.get(), tables.in_memory.get()}) {
    size_t first = 0;
    for (const KeyGroup& group : left.groups) {
      const absl::Span<const Key> keys(left.keys.data() + first,
                                       group.num_keys / 2);
      ASSERT_TRUE(table->EvictKeys(group.partition, keys, 3).ok());
      first += group.num_keys;
    }
  }
  EXPECT_LT(tables.tiered->Stats().rows, 1100u);
  EXPECT_EQ(tables.tiered->Stats().rows, tables.in_memory->Stats().rows);
  EXPECT_EQ(RowsOf(*tables.tiered), RowsOf(*tables.in_memory));
}

TEST(TierTest, AnEvictionWhoseStepIsRefusedEvictsNothing) {
  SmallTier tables(20);
  tables.PushBoth(KeysFrom(0, 300));
  v1::EvictionConfig config;
  config.set_idle_ticks(1);
  int steps = 0;
  const absl::Status refused =
      tables.tiered
          ->Evict(PartitionIndex(0), *tables.tiered->LimitsOf(config), 9,
                  [&](EvictionStep& step) {
                    const absl::Status chosen = step.Choose().status();
                    EXPECT_TRUE(chosen.ok()) << chosen;
                    return ++steps == 1 ? step.Erase()
                                        : absl::InternalError("no log");
                  })
          .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(steps, 2);
  // The partition is not locked any more.
  EXPECT_EQ(RowsOf(*tables.tiered), RowsOf(*tables.in_memory));
}

// Writes nonsense over all files of the store.
void DamageFiles(const std::string& directory) {
  int num_damaged = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory + "/data")) {
    if (entry.path().extension() != ".sst") continue;
    const auto size = std::filesystem::file_size(entry.path());
    std::fstream file(entry.path(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(0);
    // Short of the index and filters at the end, which are read already.
    const std::string nonsense(size * 9 / 10, '\x5a');
    file << nonsense;
    ++num_damaged;
  }
  ASSERT_GT(num_damaged, 0);
}

TEST(TierTest, DamagedFilesAreDataLossThatNamesThemAndNeverAValue) {
  SmallTier tables(50, 64);
  // More than a buffer holds, but not so many files that they are merged.
  for (uint64_t first = 0; first < 14'000; first += 2000) {
    tables.PushBoth(KeysFrom(first, 2000));
  }
  ASSERT_TRUE(
      Eventually([&] { return tables.tiered->Stats().disk_bytes > 0; }));
  const GroupedKeys old_keys = KeysFrom(0, 2000);
  std::vector<float> values;
  ASSERT_TRUE(Pull(old_keys, *tables.tiered, &values).ok());
  DamageFiles(tables.directory);

  const auto expect_data_loss = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(tables.directory));
  };
  const GroupedKeys keys = KeysFrom(3000, 500);
  expect_data_loss(Pull(keys, *tables.tiered, &values));
  expect_data_loss(Push(keys, 1000, tables.tiered.get()));
  for (const KeyGroup& group : keys.groups) {
    EXPECT_FALSE(tables.tiered->HasApplied(group.partition, Stamp(0, 1, 1000)));
  }
  expect_data_loss(tables.tiered->ForEachRow(
      [](PartitionIndex, const SparseTable::RowView&) {}));
  v1::EvictionConfig limits;
  limits.set_idle_ticks(1);
  expect_data_loss(
      tables.tiered
          ->Evict(PartitionIndex(0), *tables.tiered->LimitsOf(limits), 100'000)
          .status());
  // New keys need nothing from the files.
  EXPECT_TRUE(Pull(KeysFrom(1 << 20, 10), *tables.tiered, &values).ok());
}

// No file of this process may be larger than `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(TierTest, ADiskThatTakesNoMoreFailsPushesAndLosesNothing) {
  SmallTier tables(50, 64);
  for (uint64_t first = 0; first < 8000; first += 4000) {
    tables.PushBoth(KeysFrom(first, 4000));
  }
  absl::Status status;
  uint64_t num_pushed = 8000;
  {
    const FileSizeLimit limit(1 << 20);
    // What the buffers cannot get rid of comes back to who fills them.
    for (; status.ok() && num_pushed < 400'000; num_pushed += 4000) {
      const GroupedKeys keys = KeysFrom(num_pushed, 4000);
      status = Push(keys, ++tables.sequence, tables.tiered.get());
      if (status.ok()) {
        ASSERT_TRUE(Push(keys, tables.sequence, tables.in_memory.get()).ok());
      }
    }
  }
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(tables.directory));
  // What was applied can be read, on disk or not.
  const GroupedKeys keys = KeysFrom(0, 8000);
  std::vector<float> expected, values;
  ASSERT_TRUE(Pull(keys, *tables.in_memory, &expected).ok());
  status = Pull(keys, *tables.tiered, &values);
  if (status.ok()) {
    EXPECT_EQ(values, expected);
  } else {
    EXPECT_THAT(std::string(status.message()), HasSubstr(tables.directory));
  }
}

}  // namespace
}  // namespace oarlock::sparse_table
