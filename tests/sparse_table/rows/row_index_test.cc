#include "sparse_table/rows/row_index.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "base/mix.h"
#include "base/random.h"

namespace oarlock::sparse_table {
namespace {

// Rows of 24 bytes in an arena of their own.
class Rows {
 public:
  explicit Rows(uint64_t bytes_max = 64 << 20)
      : arena_(*Arena::Create(bytes_max)),
        space_(arena_.get(), RowLayout(1, 0, false)) {}

  const RowSpace* space() const { return &space_; }

  RowRef Create(Key key) {
    if (cell_ == 0) chunk_ = *arena_->Allocate();
    const RowRef ref = space_.RefOf(chunk_, cell_);
    cell_ = (cell_ + 1) % space_.rows_per_chunk();
    RowLayout::Header(space_.At(ref)) = RowHeader{.key = key};
    return ref;
  }

 private:
  std::unique_ptr<Arena> arena_;
  RowSpace space_;
  uint32_t chunk_ = 0;
  uint32_t cell_ = 0;
};

void Insert(RowIndex& index, Rows& rows, Key key,
            std::map<Key, RowRef>* model) {
  ASSERT_TRUE(index.Reserve(1).ok());
  const RowRef row = rows.Create(key);
  index.Insert(Mix(key), row);
  (*model)[key] = row;
}

TEST(RowIndexTest, AnEmptyIndexFindsNothing) {
  Rows rows;
  RowIndex index(rows.space(), 1);
  index.Prefetch(123);
  EXPECT_EQ(index.Find(Key{0}, Mix(0)), kNoRow);
  EXPECT_EQ(index.FindCandidate(Mix(~uint64_t{0})), kNoRow);
}

TEST(RowIndexTest, ErasedRowsAreGoneAndTheOthersStay) {
  constexpr uint64_t kSeed = 12;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  Rows rows;
  RowIndex index(rows.space(), 1);
  std::map<Key, RowRef> model;
  // Fills and empties it in turn, so that buckets overflow and stop to.
  for (int step = 0; step < 60000; ++step) {
    const Key key{random.Below(30000)};
    const bool fills = step / 10000 % 2 == 0;
    const auto found = model.find(key);
    ASSERT_EQ(index.Find(key, Mix(key)),
              found == model.end() ? kNoRow : found->second);
    if (found == model.end() && (fills || random.Below(4) == 0)) {
      Insert(index, rows, key, &model);
    } else if (found != model.end() && (!fills || random.Below(4) == 0)) {
      index.Erase(Mix(key), found->second);
      model.erase(found);
    }
    ASSERT_EQ(index.num_rows(), model.size());
  }
  for (uint64_t i = 0; i < 30000; ++i) {
    const auto found = model.find(Key{i});
    ASSERT_EQ(index.Find(Key{i}, Mix(i)),
              found == model.end() ? kNoRow : found->second);
  }
}

TEST(RowIndexTest, EveryRowIsFoundThroughManyGrowths) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  Rows rows;
  RowIndex index(rows.space(), 1);
  std::map<Key, RowRef> model;
  std::set<size_t> sizes;
  for (const Key extreme : {Key{0}, Key{~uint64_t{0}}}) {
    Insert(index, rows, extreme, &model);
  }
  while (model.size() < 100000) {
    // Keys of few bits, as of slots with few values, and of all bits.
    const Key key{random() >> (random.Below(2) * 46)};
    const auto known = model.find(key);
    ASSERT_EQ(index.Find(key, Mix(key)),
              known == model.end() ? kNoRow : known->second);
    if (known == model.end()) Insert(index, rows, key, &model);
    sizes.insert(index.num_buckets());
    if (random.Below(20000) != 0) continue;
    for (const auto& [each, row] : model) {
      ASSERT_EQ(index.Find(each, Mix(each)), row);
    }
  }
  for (const auto& [key, row] : model) {
    ASSERT_EQ(index.Find(key, Mix(key)), row);
  }
  EXPECT_EQ(index.num_rows(), model.size());
  EXPECT_GE(sizes.size(), 10u);
}

// Keys that share bucket and tag: the mix is inverted to make them.
uint64_t InverseMix(uint64_t mix) {
  const auto unshift = [](uint64_t z, int by) {
    uint64_t x = z;
    for (int i = 0; i < 64 / by; ++i) x = z ^ (x >> by);
    return x;
  };
  const auto inverse = [](uint64_t a) {
    uint64_t x = a;
    for (int i = 0; i < 6; ++i) x *= 2 - a * x;
    return x;
  };
  uint64_t z = unshift(mix, 31) * inverse(0x94d049bb133111ebu);
  z = unshift(z, 27) * inverse(0xbf58476d1ce4e5b9u);
  return unshift(z, 30) - 0x9e3779b97f4a7c15u;
}

TEST(RowIndexTest, KeysOfOneBucketAndOneTagAreToldApart) {
  Rows rows;
  RowIndex index(rows.space(), 1);
  std::map<Key, RowRef> model;
  for (uint64_t high = 0; high < 500; ++high) {
    const uint64_t mix = high << 48 | uint64_t{0x1234} << 32 | 0x5678;
    const Key key{InverseMix(mix)};
    ASSERT_EQ(Mix(key), mix);
    ASSERT_EQ(index.Find(key, mix), kNoRow);
    Insert(index, rows, key, &model);
  }
  for (const auto& [key, row] : model) {
    EXPECT_EQ(index.Find(key, Mix(key)), row);
    EXPECT_NE(index.FindCandidate(Mix(key)), kNoRow);
  }
}

TEST(RowIndexTest, IndexesGrowAtDifferentMoments) {
  Rows rows;
  std::set<size_t> thresholds;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    RowIndex index(rows.space(), seed);
    ASSERT_TRUE(index.Reserve(20000).ok());
    const double load = static_cast<double>(index.growth_rows()) /
                        static_cast<double>(index.num_buckets() * 10);
    EXPECT_GE(load, RowIndex::kMinLoad - 0.001);
    EXPECT_LE(load, RowIndex::kMaxLoad);
    thresholds.insert(index.growth_rows());
  }
  EXPECT_GE(thresholds.size(), 48u);
}

TEST(RowIndexTest, WithoutMemoryItFillsUpFurtherThenRefuses) {
  // One chunk of rows, one of 1024 buckets, none for 2048.
  Rows rows(2 * Arena::kChunkBytes);
  RowIndex index(rows.space(), 1);
  std::map<Key, RowRef> model;
  Insert(index, rows, Key{0}, &model);
  const RowRef row = model[Key{0}];
  uint64_t next = 1;
  absl::Status status;
  while ((status = index.Reserve(1)).ok()) {
    index.Insert(Mix(next++), row);
    ASSERT_LE(next, 10240u);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(index.num_buckets(), 1024u);
  EXPECT_EQ(index.num_rows(), static_cast<size_t>(0.9 * 10240));
}

}  // namespace
}  // namespace oarlock::sparse_table
