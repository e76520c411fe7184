#include "worker/data/file_list.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/test_files.h"

namespace oarlock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileListTest : public ::testing::Test {
 protected:
  FileListTest() {
    for (const char* name :
         {"part-10", "part-2", "part-1", "other", ".hidden"}) {
      folder_.Write(name, "");
    }
    std::filesystem::create_directory(folder_.Path("part-sub"));
  }
  std::vector<std::string> Expand(const std::string& list) {
    auto files = ExpandFileList(list);
    EXPECT_TRUE(files.ok()) << files.status();
    if (!files.ok()) return {};
    for (std::string& file : *files) {
      EXPECT_TRUE(file.starts_with(folder_.path() + "/"));
      file = file.substr(file.rfind('/') + 1);
    }
    return *files;
  }
  TestFolder folder_;
};

TEST_F(FileListTest, PatternMatchesFilesInNaturalOrder) {
  EXPECT_THAT(Expand(folder_.Path("part-*")),
              ElementsAre("part-1", "part-2", "part-10"));
  EXPECT_THAT(Expand(folder_.Path("part-?")), ElementsAre("part-1", "part-2"));
}

TEST_F(FileListTest, FolderStandsForItsVisibleFiles) {
  EXPECT_THAT(Expand(folder_.path()),
              ElementsAre("other", "part-1", "part-2", "part-10"));
}

TEST_F(FileListTest, ListKeepsItsOrderAndDropsRepetitions) {
  EXPECT_THAT(Expand(folder_.Path("part-2") + ", " + folder_.Path("part-*") +
                     " " + folder_.Path("other") + ","),
              ElementsAre("part-2", "part-1", "part-10", "other"));
}

TEST_F(FileListTest, PatternWithoutMatchIsNotFound) {
  const auto files =
      ExpandFileList(folder_.path() + "," + folder_.Path("absent-*"));
  EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(files.status().message(), HasSubstr("no data file matches '"));
  EXPECT_THAT(files.status().message(), HasSubstr("absent-*"));
  EXPECT_EQ(ExpandFileList(folder_.Path("absent")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ExpandFileList(folder_.Path("part-sub")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FileListTest, EmptyListIsInvalid) {
  EXPECT_EQ(ExpandFileList(" , ").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(NaturalLessTest, IsATotalOrderThatComparesNumbersByValue) {
  const std::vector<std::string> sorted = {"",
                                           "01",
                                           "1",
                                           "2",
                                           "10",
                                           "10a",
                                           "10a2",
                                           "10a10",
                                           "a",
                                           "a-01",
                                           "a-1",
                                           "a-9",
                                           "a-10",
                                           "a-10-",
                                           "b99999999999999999999",
                                           "b100000000000000000000"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(NaturalLess(sorted[i], sorted[j]), i < j)
          << sorted[i] << " " << sorted[j];
    }
  }
  EXPECT_TRUE(NaturalLess("part-9/x", "part-10/a"));
}

}  // namespace
}  // namespace oarlock
