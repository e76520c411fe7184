#include "launch/log_follower.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

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
  LogFollower follower_{path_, fileno(out_)};
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

TEST_F(LogFollowerTest, AReaderThatDoesNotReadIsNotWaitedFor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string text;
  for (int i = 0; i < 50000; ++i) absl::StrAppend(&text, "line ", i, "\n");
  Write(text, std::ios::trunc);
  LogFollower follower(path_, ends[1]);
  // More than a pipe holds.
  follower.Poll();
  follower.Poll();
  const int64_t left = follower.Finish();
  EXPECT_GT(left, 0);
  std::string read(text.size() - left, '\0');
  size_t done = 0;
  while (done < read.size()) {
    const ssize_t n = ::read(ends[0], read.data() + done, read.size() - done);
    ASSERT_GT(n, 0);
    done += n;
  }
  EXPECT_TRUE(read == text.substr(0, read.size()));
  std::thread reader([&] {
    char bytes[4096];
    ssize_t n;
    while ((n = ::read(ends[0], bytes, sizeof(bytes))) > 0) {
      read.append(bytes, n);
    }
  });
  EXPECT_EQ(follower.Finish(), 0);
  close(ends[1]);
  reader.join();
  EXPECT_TRUE(read == text) << "nothing is lost, nothing comes twice";
  close(ends[0]);
}

TEST_F(LogFollowerTest, WhatIsSkippedIsNotCopied) {
  Write("before\n", std::ios::out);
  follower_.Skip();
  Write("after\n", std::ios::app);
  EXPECT_EQ(Copied(), "after\n");
}

}  // namespace
}  // namespace oarlock::launch
