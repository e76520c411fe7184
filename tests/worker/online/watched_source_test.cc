#include "worker/online/watched_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/base/test_folder.h"

namespace oarlock::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WatchedFolderTest, FilesAreCompleteUnderTheirNamesInNaturalOrder) {
  const TestFolder folder;
  for (const std::string name :
       {"part-10", "part-2", ".hidden", "part-3.tmp", "two words", "a,b"}) {
    folder.Write(name, "x");
  }
  std::filesystem::create_directory(folder.Path("deeper"));
  WatchedFolder watched(folder.path(), "");
  EXPECT_THAT(*watched.List(), ElementsAre("part-2", "part-10"));
  std::filesystem::rename(folder.Path("part-3.tmp"), folder.Path("part-3"));
  EXPECT_THAT(*watched.List(), ElementsAre("part-2", "part-3", "part-10"));
}

TEST(WatchedFolderTest, WithAMarkerFilesWaitForTheirs) {
  const TestFolder folder;
  folder.Write("part-0", "x");
  folder.Write("part-1", "x");
  WatchedFolder watched(folder.path(), ".done");
  EXPECT_THAT(*watched.List(), IsEmpty());
  folder.Write("part-1.done", "");
  EXPECT_THAT(*watched.List(), ElementsAre("part-1"));
}

TEST(WatchedFolderTest, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT(WatchedFolder("/nowhere/at/all", "").List().status().message(),
              HasSubstr("--watch_dir /nowhere/at/all"));
}

// Folders below one, with and without their marker.
class WatchedFoldersTest : public ::testing::Test {
 protected:
  void Make(const std::string& folder, const std::string& marker = "_SUCCESS") {
    std::filesystem::create_directories(folder_.Path(folder));
    if (marker.empty()) return;
    folder_.Write(absl::StrCat(folder, "/", marker), "");
  }
  WatchedFolders Watch(const std::string& pattern,
                       const std::string& marker = "_SUCCESS") {
    return WatchedFolders(absl::StrCat(folder_.path(), "/", pattern), marker);
  }

  TestFolder folder_;
};

TEST_F(WatchedFoldersTest, ThoseWithTheMarkerAreCompleteInNaturalOrder) {
  Make("day=9/hour=1");
  Make("day=10/hour=11");
  Make("day=10/hour=2");
  Make("day=10/hour=3", "");
  Make("day=10");
  Make("other/hour=1");
  Make(".day=1/hour=1");
  folder_.Write("day=file", "x");
  WatchedFolders watched = Watch("day=*/hour=*");
  EXPECT_THAT(*watched.List(),
              ElementsAre("day=9/hour=1", "day=10/hour=2", "day=10/hour=11"));
  folder_.Write("day=10/hour=3/_SUCCESS", "");
  EXPECT_EQ(watched.List()->size(), 4u);
  // A pattern may end in a slash, and have parts without a wildcard.
  EXPECT_THAT(*Watch("day=*/").List(), ElementsAre("day=10"));
  EXPECT_THAT(*Watch("day=*/hour=11").List(), ElementsAre("day=10/hour=11"));
  EXPECT_THAT(*Watch("*/hour=[12]").List(),
              ElementsAre("day=9/hour=1", "day=10/hour=2", "other/hour=1"));
}

TEST_F(WatchedFoldersTest, TheMarkerHasTheNameThatItIsGiven) {
  Make("day=1", "done");
  folder_.Write("day=1/a", "x");
  Make("day=2");
  WatchedFolders watched = Watch("day=*", "done");
  EXPECT_THAT(*watched.List(), ElementsAre("day=1"));
  EXPECT_THAT(*watched.PartsOf("day=1"), ElementsAre("a"));
}

TEST_F(WatchedFoldersTest, ItsFilesAreThoseThatAreNoneOfTheWriters) {
  Make("day=1");
  Make("day=1/deeper");
  for (const std::string name :
       {"part-10", "part-9", "_metadata", ".part-9.crc", "two words, one"}) {
    folder_.Write(absl::StrCat("day=1/", name), "x");
  }
  EXPECT_THAT(*Watch("day=*").PartsOf("day=1"),
              ElementsAre("part-9", "part-10", "two words, one"));
  EXPECT_TRUE(absl::IsNotFound(Watch("day=*").PartsOf("day=2").status()));
  folder_.Write("day=1/caf\xc3\xa9", "x");
  EXPECT_THAT(std::string(Watch("day=*").PartsOf("day=1").status().message()),
              AllOf(HasSubstr("caf\\xc3\\xa9"), HasSubstr("rename it")));
}

TEST_F(WatchedFoldersTest, TooManyFilesAreRefused) {
  Make("day=1");
  for (int i = 0; i < 10001; ++i) {
    folder_.Write(absl::StrCat("day=1/", i), "");
  }
  EXPECT_THAT(std::string(Watch("day=*").PartsOf("day=1").status().message()),
              HasSubstr("has 10001 files; legal is up to 10000"));
}

TEST_F(WatchedFoldersTest, TheRootIsNamedWhereItIsNotThere) {
  EXPECT_THAT(*Watch("day=*").List(), IsEmpty());
  EXPECT_THAT(std::string(WatchedFolders("/nowhere/at/all/day=*", "done")
                              .List()
                              .status()
                              .message()),
              HasSubstr("--watch_dir /nowhere/at/all"));
}

TEST(WatchedPathsTest, WorkersNeedOnlyWhatTheCoordinatorKnows) {
  v1::JobConfig config;
  v1::TrainingFile file;
  config.set_watch_dir("in");
  file.set_file("part-0");
  EXPECT_THAT(WatchedPaths(config, file), ElementsAre("in/part-0"));
  config.set_watch_dir("in/logs/day=*/hour=*");
  file.set_file("day=1/hour=2");
  file.add_parts("a");
  file.add_parts("b");
  EXPECT_THAT(WatchedPaths(config, file),
              ElementsAre("in/logs/day=1/hour=2/a", "in/logs/day=1/hour=2/b"));
  EXPECT_EQ(WatchedFolders::RootOf("day=*"), ".");
  EXPECT_EQ(WatchedFolders::RootOf("/day=*"), "/");
  EXPECT_EQ(WatchedFolders::RootOf("a/b?/c"), "a");
}

TEST(CheckWatchedSourceTest, MarkersGoWithWhatTheyMark) {
  v1::JobConfig config;
  config.set_watch_dir("in");
  config.set_watch_marker(".done");
  EXPECT_TRUE(CheckWatchedSource(config).ok());
  config.set_watch_dir("in/*");
  EXPECT_THAT(std::string(CheckWatchedSource(config).message()),
              HasSubstr("use --watch_folder_marker"));
  config.clear_watch_marker();
  EXPECT_TRUE(CheckWatchedSource(config).ok());
  config.set_watch_folder_marker("done");
  EXPECT_TRUE(CheckWatchedSource(config).ok());
  for (const std::string marker : {"", ".", "..", "a/b"}) {
    config.set_watch_folder_marker(marker);
    EXPECT_THAT(std::string(CheckWatchedSource(config).message()),
                HasSubstr("legal is the name of a file"))
        << marker;
  }
  config.set_watch_folder_marker("done");
  config.set_watch_dir("in");
  EXPECT_THAT(std::string(CheckWatchedSource(config).message()),
              HasSubstr("name a pattern of folders"));
  for (const std::string dir : {"in out", "in,out", "in\n"}) {
    config.set_watch_dir(dir);
    EXPECT_THAT(std::string(CheckWatchedSource(config).message()),
                HasSubstr("without blanks and commas"));
  }
}

}  // namespace
}  // namespace oarlock::worker
