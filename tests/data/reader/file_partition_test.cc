#include "data/reader/file_partition.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "base/random.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kSeed = 99;

using Example = std::pair<size_t, uint64_t>;

TEST(FilePartitionTest, EachFileIsOneRanksAndAllRanksHaveEquallyMany) {
  for (size_t num_files = 1; num_files <= 25; ++num_files) {
    for (uint32_t size = 1; size <= 8; ++size) {
      for (const UnevenRule rule : {UnevenRule::kDrop, UnevenRule::kPad}) {
        SCOPED_TRACE(testing::Message() << num_files << " on " << size);
        if (rule == UnevenRule::kDrop && num_files < size) {
          EXPECT_EQ(FilesOfRank(num_files, 0, size, rule).status().code(),
                    absl::StatusCode::kInvalidArgument);
          continue;
        }
        std::vector<int> taken(num_files);
        size_t all = 0;
        for (uint32_t rank = 0; rank < size; ++rank) {
          const auto files = FilesOfRank(num_files, rank, size, rule);
          ASSERT_TRUE(files.ok()) << files.status();
          const size_t share = rule == UnevenRule::kDrop
                                   ? num_files / size
                                   : (num_files + size - 1) / size;
          ASSERT_EQ(files->size(), share);
          for (const size_t file : *files) ++taken.at(file);
          all += share;
        }
        size_t num_once = 0;
        for (size_t i = 0; i < num_files; ++i) {
          if (rule == UnevenRule::kDrop) {
            EXPECT_EQ(taken[i], i < all ? 1 : 0);
          } else {
            EXPECT_GE(taken[i], 1);
          }
          num_once += taken[i] > 0;
        }
        EXPECT_LT(all > num_once ? all - num_once : num_files - num_once, size);
      }
    }
  }
}

// The plain way: all examples in a list, cut into runs.
TEST(FilePartitionTest, PartsAreRunsOfAllExamplesInARow) {
  RandomSequence random(kSeed);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<uint64_t> counts(1 + random.Below(8));
    std::vector<Example> all;
    for (size_t file = 0; file < counts.size(); ++file) {
      counts[file] = random.Below(12);
      for (uint64_t i = 0; i < counts[file]; ++i) all.push_back({file, i});
    }
    const uint32_t size = 1 + static_cast<uint32_t>(random.Below(6));
    for (const UnevenRule rule : {UnevenRule::kDrop, UnevenRule::kPad}) {
      SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", trial " << trial
                                      << ", " << all.size() << " on " << size);
      if (all.empty() || (rule == UnevenRule::kDrop && all.size() < size)) {
        EXPECT_EQ(PartsOfRank(counts, 0, size, rule).status().code(),
                  absl::StatusCode::kInvalidArgument);
        continue;
      }
      const size_t share = rule == UnevenRule::kDrop
                               ? all.size() / size
                               : (all.size() + size - 1) / size;
      for (uint32_t rank = 0; rank < size; ++rank) {
        const auto parts = PartsOfRank(counts, rank, size, rule);
        ASSERT_TRUE(parts.ok()) << parts.status();
        size_t position = rank * share;
        for (const FilePart& part : *parts) {
          ASSERT_LT(part.begin, part.end);
          for (uint64_t i = part.begin; i < part.end; ++i, ++position) {
            ASSERT_EQ(Example(part.file, i), all[position % all.size()]);
            ASSERT_EQ(part.is_padding, position >= all.size());
          }
        }
        ASSERT_EQ(position, (rank + 1) * share);
      }
    }
  }
}

TEST(FilePartitionTest, EqualFilesAreNotCut) {
  const std::vector<uint64_t> counts(6, 100);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto parts = PartsOfRank(counts, rank, 3, UnevenRule::kDrop);
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_EQ(*parts, (std::vector<FilePart>{
                          {.file = 2 * rank, .begin = 0, .end = 100},
                          {.file = 2 * rank + 1, .begin = 0, .end = 100}}));
  }
}

TEST(FilePartitionTest, ARankThatIsNoneIsRefused) {
  for (const auto& status :
       {FilesOfRank(4, 2, 2, UnevenRule::kPad).status(),
        PartsOfRank({4}, 2, 2, UnevenRule::kPad).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("rank is 2 of 2"), std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace oarlock::data
