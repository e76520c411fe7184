#include "data/reader/pipe_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "tests/base/skippable_clock.h"
#include "tests/base/test_folder.h"

namespace oarlock::data {
namespace {

using ::testing::HasSubstr;

TEST(PipeSourceTest, ACommandThatHangsEndsWhenItIsNotWantedAnyMore) {
  const TestFolder folder;
  const std::string path = folder.Write("file", "text\n");
  const SkippableClock clock;
  int asked = 0;
  auto source = OpenPipe("cat; sleep 1000", path, clock, [&](absl::Duration) {
    return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("enough");
  });
  ASSERT_TRUE(source.ok()) << source.status();
  char bytes[100];
  const absl::StatusOr<size_t> first = (*source)->Read(bytes, sizeof(bytes));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(std::string(bytes, *first), "text\n");
  // Nothing more comes for a long time.
  const absl::Status status = (*source)->Read(bytes, sizeof(bytes)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("pipe_command 'cat; sleep 1000' on '" + path + "': enough"));
  EXPECT_EQ(asked, 3);
}

TEST(PipeSourceTest, ACommandThatWritesIsNotAskedAbout) {
  const TestFolder folder;
  const SkippableClock clock;
  // A slow machine has silent commands.
  auto source = OpenPipe("cat", folder.Write("file", "text\n"), clock,
                         [](absl::Duration) { return absl::OkStatus(); });
  ASSERT_TRUE(source.ok()) << source.status();
  char bytes[100];
  const absl::StatusOr<size_t> first = (*source)->Read(bytes, sizeof(bytes));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(std::string(bytes, *first), "text\n");
  const absl::StatusOr<size_t> end = (*source)->Read(bytes, sizeof(bytes));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(*end, 0u);
}

}  // namespace
}  // namespace oarlock::data
