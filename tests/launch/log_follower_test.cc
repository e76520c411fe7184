#include "launch/log_follower.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace oarlock::launch {
namespace {

class LogFollowerTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, std::ios::openmode how) {
    std::ofstream(path_, how) << text;
  }
  // What Poll has copied so far.
  std::string Copied() {
    follower_.Poll();
    std::rewind(out_);
    std::string text(1 << 20, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), out_));
    return text;
  }
  void TearDown() override { std::fclose(out_); }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/log");
  std::FILE* const out_ = std::tmpfile();
  LogFollower follower_{path_, out_};
};

TEST_F(LogFollowerTest, CopiesWhatIsNew) {
  std::remove(path_.c_str());
  EXPECT_EQ(Copied(), "");
  Write("one\ntw", std::ios::trunc);
  EXPECT_EQ(Copied(), "one\ntw");
  EXPECT_EQ(Copied(), "one\ntw");
  const std::string lines(200000, 'x');
  Write(absl::StrCat("o\n", lines), std::ios::app);
  EXPECT_EQ(Copied(), absl::StrCat("one\ntwo\n", lines));
  // A shorter file is another one.
  Write("new\n", std::ios::trunc);
  EXPECT_EQ(Copied(), absl::StrCat("one\ntwo\n", lines, "new\n"));
}

TEST_F(LogFollowerTest, WhatIsSkippedIsNotCopied) {
  Write("before\n", std::ios::out);
  follower_.Skip();
  Write("after\n", std::ios::app);
  EXPECT_EQ(Copied(), "after\n");
}

}  // namespace
}  // namespace oarlock::launch
