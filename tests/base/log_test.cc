#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"

namespace oarlock {
namespace {

TEST(LogTest, WhatOthersSendMakesNoLineOfItsOwn) {
  EXPECT_EQ(OneLogLine("job 'a\n2026-11-28 E server 0  forged'"),
            "job 'a\\n2026-11-28 E server 0  forged'");
  EXPECT_EQ(OneLogLine("\x1b[2J\r\x7f\t"), "\\x1b[2J\\x0d\\x7f\\x09");
  EXPECT_EQ(OneLogLine("\xc2\x9b"
                       "2J"),
            "\\xc2\\x9b"
            "2J");
  EXPECT_EQ(OneLogLine("caf\xc3\xa9 \xc2\xb5s"), "caf\xc3\xa9 \xc2\xb5s");
}

TEST(LogTest, AnIndentedLineBelongsToTheOneBefore) {
  EXPECT_EQ(OneLogLine("the last lines:\n    one\n    two\n   three"),
            "the last lines:\n    one\n    two\\n   three");
}

TEST(LogTest, LongMessagesAreCut) {
  for (const size_t size : {8191, 8192}) {
    EXPECT_EQ(OneLogLine(std::string(size, 'x')).size(), size);
  }
  const std::string line = OneLogLine(std::string(8193, 'x'));
  EXPECT_LT(line.size(), 8300u);
  EXPECT_TRUE(absl::EndsWith(line, "... (8193 bytes)")) << line;
}

TEST(LogTest, EveryMessageGoesThroughIt) {
  InitLogging("test");
  ::testing::internal::CaptureStderr();
  Log().info("{}", "one\ntwo");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::EndsWith(text, "I test  one\\ntwo\n")) << text;
}

}  // namespace
}  // namespace oarlock
