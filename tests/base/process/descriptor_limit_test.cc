#include "base/process/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace oarlock {
namespace {

TEST(DescriptorLimitTest, IsRaisedToTheHardOne) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_TRUE(RaiseDescriptorLimit(65).ok());
  rlimit after = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(after.rlim_max, before.rlim_max);
}

TEST(DescriptorLimitTest, WhatTheHardOneForbidsIsTold) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const uint64_t hard = limit.rlim_max;
  EXPECT_TRUE(RaiseDescriptorLimit(hard).ok());
  const absl::Status status = RaiseDescriptorLimit(hard + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat(hard)))
      << status;
  EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat(hard + 1)))
      << status;
}

}  // namespace
}  // namespace oarlock
