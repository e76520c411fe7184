#include "data/reader/file_list.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
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

TEST_F(FileListTest, FoldersOfFoldersAreReadThrough) {
  for (const char* path :
       {"hive/dt=2/part-0", "hive/dt=10/part-10", "hive/dt=10/part-2",
        "hive/_SUCCESS", "hive/.crc/x", "hive/_temporary/0/part-0"}) {
    std::filesystem::create_directories(
        std::filesystem::path(folder_.Path(path)).parent_path());
    folder_.Write(path, "");
  }
  const auto tables = ElementsAre("_SUCCESS", "part-0", "part-2", "part-10");
  EXPECT_THAT(Expand(folder_.Path("hive")), tables);
  EXPECT_THAT(Expand(folder_.Path("hive/*")), tables);
  EXPECT_THAT(Expand(folder_.Path("hive/dt=1*")),
              ElementsAre("part-2", "part-10"));
  // A link that leads back has an end.
  std::filesystem::create_directory_symlink("..", folder_.Path("hive/up"));
  EXPECT_THAT(Expand(folder_.Path("hive/dt=2")), ElementsAre("part-0"));
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

TEST_F(FileListTest, WhatExistsAsItIsWrittenIsTakenAsItIs) {
  for (const char* name : {"my data", "a,b", "a, b c"}) folder_.Write(name, "");
  EXPECT_THAT(Expand(folder_.Path("my data")), ElementsAre("my data"));
  EXPECT_THAT(Expand(folder_.Path("a, b c")), ElementsAre("a, b c"));
  EXPECT_THAT(Expand(folder_.Path("my data") + "," + folder_.Path("other")),
              ElementsAre("my data", "other"));
  const std::string entries[] = {
      folder_.Path("a,b"),
      folder_.Path("part-1") + " " + folder_.Path("other")};
  const auto files = ExpandFileList(entries);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(folder_.Path("a,b"), folder_.Path("part-1"),
                                  folder_.Path("other")));
}

TEST_F(FileListTest, AFileIsReadOnceWhateverItIsCalled) {
  std::filesystem::create_symlink("part-1", folder_.Path("again"));
  EXPECT_THAT(Expand(folder_.Path("part-1") + "," + folder_.Path("./part-1") +
                     "," + folder_.Path("part-sub/../part-1") + "," +
                     folder_.Path("again") + "," + folder_.Path("other")),
              ElementsAre("part-1", "other"));
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

TEST_F(FileListTest, PipeSocketOrDeviceIsRefusedByItsName) {
  const auto expect_refused = [](const std::string& list,
                                 const std::string& what) {
    const absl::Status status = ExpandFileList(list).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("data file " + what + "; legal"));
  };
  expect_refused("/dev/null", "'/dev/null' is a device");
  const std::string pipe = folder_.Path("part-3");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // However it is named: by itself, by a pattern, by its folder, by a link.
  expect_refused(pipe, "'" + pipe + "' is a pipe");
  expect_refused(folder_.Path("part-*"), "'" + pipe + "' is a pipe");
  expect_refused(folder_.path(), "'" + pipe + "' is a pipe");
  const std::string link = folder_.Path("link");
  std::filesystem::create_symlink(pipe, link);
  expect_refused(link, "'" + link + "' is a pipe");
  // Nobody asked for it.
  EXPECT_THAT(Expand(folder_.Path("part-1*")),
              ElementsAre("part-1", "part-10"));

  const std::string socket = folder_.Path("socket");
  ASSERT_EQ(mknod(socket.c_str(), S_IFSOCK | 0600, 0), 0);
  expect_refused(socket, "'" + socket + "' is a socket");
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
}  // namespace oarlock::data
