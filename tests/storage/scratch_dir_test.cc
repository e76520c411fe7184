#include "storage/scratch_dir.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace oarlock::storage {
namespace {

namespace fs = std::filesystem;

std::string FreshPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/scratch_" + name;
  fs::remove_all(path);
  return path;
}

void WriteFile(const std::string& path) { std::ofstream(path) << "something"; }

using Scratch = absl::StatusOr<std::unique_ptr<ScratchDir>>;

TEST(ScratchDirTest, ItIsMadeWithTheFoldersAboveItAndGoesWithItsFiles) {
  const std::string above = FreshPath("made");
  {
    const Scratch scratch = ScratchDir::Create(above + "/a/b");
    ASSERT_TRUE(scratch.ok()) << scratch.status();
    WriteFile((*scratch)->data_path() + "/file");
    fs::create_directory((*scratch)->data_path() + "/folder");
  }
  EXPECT_TRUE(fs::exists(above + "/a"));
  EXPECT_FALSE(fs::exists(above + "/a/b"));
}

TEST(ScratchDirTest, FilesOfAnyoneElseAreRefusedAndLeftAlone) {
  const std::string path = FreshPath("foreign");
  fs::create_directories(path + "/data");
  WriteFile(path + "/data/precious");
  Scratch scratch = ScratchDir::Create(path);
  EXPECT_EQ(scratch.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(path + "/data/precious"));

  WriteFile(path + "/OARLOCK_SCRATCH");
  WriteFile(path + "/thesis");
  scratch = ScratchDir::Create(path);
  EXPECT_EQ(scratch.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(scratch.status().message().find("(thesis)"), std::string::npos)
      << scratch.status();
  EXPECT_NE(scratch.status().message().find(path), std::string::npos);
  EXPECT_TRUE(fs::exists(path + "/data/precious"));
}

TEST(ScratchDirTest, ADirectoryInUseIsRefused) {
  const std::string path = FreshPath("used");
  Scratch first = ScratchDir::Create(path);
  ASSERT_TRUE(first.ok()) << first.status();
  WriteFile((*first)->data_path() + "/file");
  const Scratch second = ScratchDir::Create(path);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists((*first)->data_path() + "/file"));
  first->reset();
  EXPECT_TRUE(ScratchDir::Create(path).ok());
}

TEST(ScratchDirTest, WhatAKilledProcessLeftIsWiped) {
  const std::string path = FreshPath("killed");
  const pid_t child = fork();
  if (child == 0) {
    const Scratch scratch = ScratchDir::Create(path);
    if (scratch.ok()) WriteFile((*scratch)->data_path() + "/stale");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(fs::exists(path + "/data/stale"));
  const Scratch scratch = ScratchDir::Create(path);
  ASSERT_TRUE(scratch.ok()) << scratch.status();
  EXPECT_TRUE(fs::is_empty((*scratch)->data_path()));
}

TEST(ScratchDirTest, APathThatCannotBeIsAnErrorThatNamesIt) {
  const std::string file = FreshPath("file");
  WriteFile(file);
  const Scratch scratch = ScratchDir::Create(file + "/below");
  EXPECT_FALSE(scratch.ok());
  EXPECT_NE(scratch.status().message().find(file + "/below"), std::string::npos)
      << scratch.status();
}

}  // namespace
}  // namespace oarlock::storage
