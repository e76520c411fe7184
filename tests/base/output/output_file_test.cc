#include "base/output/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  static std::string Text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static void Put(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static absl::Status Write(const std::string& path, const std::string& text) {
    auto file = OutputFile::Create(path);
    if (!file.ok()) return file.status();
    const absl::Status written = (*file)->Write(text);
    return written.ok() ? (*file)->Finish() : written;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, AFileAppearsWhenItIsWhole) {
  Put(Path("a"), "old");
  {
    auto file = OutputFile::Create(Path("a"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write(std::string(3 << 20, 'x')).ok());
    EXPECT_EQ(Text(Path("a")), "old");
  }
  EXPECT_EQ(Text(Path("a")), "old") << "it was not finished";
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
  ASSERT_TRUE(Write(Path("a"), "new").ok());
  EXPECT_EQ(Text(Path("a")), "new");
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
}

TEST_F(OutputFileTest, KeepsModeAndOwner) {
  Put(Path("a"), "old");
  ASSERT_EQ(chmod(Path("a").c_str(), 0640), 0);
  // Root alone may, and not in a namespace without that user.
  const bool other = chown(Path("a").c_str(), 12345, 54321) == 0;
  struct stat before, after;
  ASSERT_EQ(stat(Path("a").c_str(), &before), 0);
  EXPECT_EQ(before.st_uid == 12345, other);
  ASSERT_TRUE(Write(Path("a"), "new").ok());
  ASSERT_EQ(stat(Path("a").c_str(), &after), 0);
  EXPECT_NE(after.st_ino, before.st_ino);
  EXPECT_EQ(after.st_mode & 07777, 0640u);
  EXPECT_EQ(after.st_uid, before.st_uid);
  EXPECT_EQ(after.st_gid, before.st_gid);
}

TEST_F(OutputFileTest, ANewFileHasTheModeOfOthers) {
  const mode_t before = umask(027);
  const absl::Status written = Write(Path("a"), "");
  umask(before);
  ASSERT_TRUE(written.ok()) << written;
  struct stat after;
  ASSERT_EQ(stat(Path("a").c_str(), &after), 0);
  EXPECT_EQ(after.st_mode & 07777, 0640u);
}

TEST_F(OutputFileTest, LinksStayAndLeadToIt) {
  fs::create_directory(folder_ / "real");
  Put(Path("real/file"), "old");
  fs::create_symlink("real/file", folder_ / "one");
  fs::create_symlink("one", folder_ / "two");
  ASSERT_TRUE(Write(Path("two"), "new").ok());
  EXPECT_EQ(Text(Path("real/file")), "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "one"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "two"));
  // Where nothing is yet.
  fs::create_symlink("real/none", folder_ / "dangling");
  ASSERT_TRUE(Write(Path("dangling"), "made").ok());
  EXPECT_EQ(Text(Path("real/none")), "made");
  EXPECT_TRUE(fs::is_symlink(folder_ / "dangling"));
  // A circle.
  fs::create_symlink("round", folder_ / "round");
  EXPECT_THAT(std::string(Write(Path("round"), "").message()),
              HasSubstr("round"));
}

TEST_F(OutputFileTest, APipeIsWrittenInto) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const std::string text(2 << 20, 'y');
  std::string read;
  std::thread reader([&] { read = Text(Path("pipe")); });
  EXPECT_TRUE(Write(Path("pipe"), text).ok());
  reader.join();
  EXPECT_TRUE(read == text);
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_EQ(Names(), std::vector<std::string>{"pipe"});
}

TEST_F(OutputFileTest, AReaderThatGoesAwayIsAnError) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  std::thread reader([&] {
    const int fd = open(Path("pipe").c_str(), O_RDONLY);
    close(fd);
  });
  const absl::Status status = Write(Path("pipe"), std::string(8 << 20, 'y'));
  reader.join();
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("pipe")));
}

TEST_F(OutputFileTest, ADeviceStaysADevice) {
  EXPECT_TRUE(Write("/dev/null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(Write("/dev/full", "text").message().substr(0, 24),
            "cannot write '/dev/full'");
  fs::create_symlink("/dev/null", folder_ / "link");
  EXPECT_TRUE(Write(Path("link"), "text").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
}

TEST_F(OutputFileTest, TellsWhatCannotBeWritten) {
  EXPECT_EQ(Write(folder_, "").message(),
            absl::StrCat("cannot write '", folder_.string(),
                         "': it is a folder; name a file"));
  EXPECT_THAT(std::string(Write(Path("no/such/file"), "").message()),
              HasSubstr(absl::StrCat("cannot write '", Path("no/such/file"))));
}

TEST_F(OutputFileTest, AnInputIsNoOutput) {
  Put(Path("a"), "text");
  fs::create_symlink("a", folder_ / "link");
  fs::create_hard_link(folder_ / "a", folder_ / "hard");
  Put(Path("b"), "text");
  const std::vector<std::string> inputs = {Path("b"), Path("a")};
  for (const std::string name :
       {"a", "link", "hard", "../AnInputIsNoOutput/a"}) {
    EXPECT_EQ(CheckNotAnInput(Path(name), inputs).code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(
      CheckNotAnInput(Path("link"), inputs).message(),
      absl::StrCat("the output '", Path("link"), "' is the input '", Path("a"),
                   "', which would be lost; name another file for the "
                   "output"));
  EXPECT_TRUE(CheckNotAnInput(Path("c"), inputs).ok());
  EXPECT_TRUE(CheckNotAnInput("-", inputs).ok());
  // A terminal may be read and written.
  EXPECT_TRUE(CheckNotAnInput("/dev/null", {"/dev/null"}).ok());
}

}  // namespace
}  // namespace oarlock
