#include "storage/folder_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/base/test_folder.h"

namespace oarlock::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FolderMarkTest, WhoSeesTheSameFolderFindsIt) {
  const TestFolder folder;
  const std::string one = folder.Path("one"), other = folder.Path("other");
  std::filesystem::create_directories(one);
  std::filesystem::create_directories(other);
  std::filesystem::create_directory_symlink(one, folder.Path("mounted"));
  const absl::StatusOr<uint64_t> mark = WriteFolderMark(one);
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_NE(*mark, 0u);
  EXPECT_TRUE(CheckFolderMark(one, one, *mark).ok());
  EXPECT_TRUE(CheckFolderMark(folder.Path("mounted"), one, *mark).ok());
  const absl::Status missing = CheckFolderMark(other, one, *mark);
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()),
              AllOf(HasSubstr("--checkpoint_dir " + one), HasSubstr(other),
                    HasSubstr("all servers must see the same folder")));
  EXPECT_THAT(std::string(CheckFolderMark("", one, *mark).message()),
              HasSubstr("this server has none; give all servers the same"));
  EXPECT_TRUE(CheckFolderMark(other, one, 0).ok()) << "of an older release";
}

TEST(FolderMarkTest, OneIsLeft) {
  const TestFolder folder;
  const std::string one = folder.Path("one");
  std::filesystem::create_directories(one);
  const uint64_t first = *WriteFolderMark(one);
  const uint64_t second = *WriteFolderMark(one);
  EXPECT_NE(first, second);
  EXPECT_FALSE(CheckFolderMark(one, one, first).ok());
  EXPECT_TRUE(CheckFolderMark(one, one, second).ok());
}

TEST(FolderMarkTest, AFolderThatCannotBeWrittenIsNamed) {
  EXPECT_THAT(std::string(WriteFolderMark("/proc").status().message()),
              HasSubstr("cannot write /proc/store/mark-"));
}

}  // namespace
}  // namespace oarlock::storage
