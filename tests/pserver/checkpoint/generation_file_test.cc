#include "pserver/checkpoint/generation_file.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "base/dense_version.h"
#include "tests/base/test_folder.h"

namespace oarlock::pserver {
namespace {

class GenerationFileTest : public ::testing::Test {
 protected:
  // Of a process that begins then.
  Generation Begin(absl::Time now) {
    const auto generation = file_.Next(now);
    EXPECT_TRUE(generation.ok()) << generation.status();
    EXPECT_TRUE(file_.Keep(*generation).ok());
    return *generation;
  }

  TestFolder folder_;
  const GenerationFile file_{storage::FileSystem::Real(), folder_.path(),
                             ServerIndex(1)};
};

TEST_F(GenerationFileTest, IsTheTimeAtWhichAProcessBegins) {
  EXPECT_EQ(Begin(absl::FromUnixMillis(1'000'000'000)),
            Generation(1'000'000'000));
  EXPECT_EQ(Begin(absl::FromUnixMillis(2'000'000'000)),
            Generation(2'000'000'000));
}

TEST_F(GenerationFileTest, GrowsThoughTheClockWasSetBack) {
  const Generation first = Begin(absl::UnixEpoch() + absl::Hours(10));
  const Generation second = Begin(absl::UnixEpoch() + absl::Hours(9));
  const Generation third = Begin(absl::UnixEpoch());
  EXPECT_EQ(second.value(), first.value() + GenerationFile::kGenerationStep);
  EXPECT_EQ(third.value(), second.value() + GenerationFile::kGenerationStep);
  // 2^23 pushes to a block do not reach the next incarnation's versions.
  EXPECT_LT(FirstDenseVersion(first) + (uint64_t{1} << 23),
            FirstDenseVersion(second));
}

TEST_F(GenerationFileTest, EachServerHasItsOwn) {
  Begin(absl::UnixEpoch() + absl::Hours(10));
  const GenerationFile other(storage::FileSystem::Real(), folder_.path(),
                             ServerIndex(2));
  EXPECT_EQ(*other.Next(absl::FromUnixMillis(7)), Generation(7));
}

TEST_F(GenerationFileTest, ADamagedFileIsTold) {
  Begin(absl::FromUnixMillis(7));
  folder_.Write("store/generation-1", "no number\n");
  const auto generation = file_.Next(absl::UnixEpoch());
  EXPECT_EQ(generation.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(generation.status().message().find("store/generation-1"),
            std::string::npos)
      << generation.status();
}

}  // namespace
}  // namespace oarlock::pserver
