#include "cluster/job_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "tests/base/test_folder.h"

namespace oarlock::cluster {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

class JobFileTest : public testing::Test {
 protected:
  const TestFolder folder_;
  const std::string log_dir_ = folder_.Path("");
};

TEST_F(JobFileTest, WhatIsWrittenIsRead) {
  ASSERT_TRUE(WriteJobFile(log_dir_, {.job_id = "a \"job\"",
                                      .server_endpoints = {"[::1]:1", "b:2"},
                                      .token_file = "/t"})
                  .ok());
  const absl::StatusOr<JobFile> job = ReadJobFile(log_dir_);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->job_id, "a \"job\"");
  EXPECT_EQ(job->server_endpoints,
            (std::vector<std::string>{"[::1]:1", "b:2"}));
  EXPECT_EQ(job->token_file, "/t");
  RemoveJobFiles(log_dir_);
  EXPECT_EQ(ReadJobFile(log_dir_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JobFileTest, ATokenIsItsOwnersAloneAndNeverTheSame) {
  // What was there before, for anybody to read, is replaced.
  const std::string path = JobTokenPath(log_dir_);
  { std::ofstream(path) << "known\n"; }
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  ASSERT_TRUE(WriteRandomToken(log_dir_).ok());
  struct stat found = {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  const std::string first = TextOf(path);
  EXPECT_EQ(first.size(), 64u);
  ASSERT_TRUE(WriteRandomToken(log_dir_).ok());
  EXPECT_NE(TextOf(path), first);
}

TEST_F(JobFileTest, AnotherFileIsToldApart) {
  for (const char* text :
       {"", "{", "[]", "3", "{\"job_id\": 1}",
        "{\"job_id\": \"a\", \"token_file\": \"\", \"servers\": \"b:1\"}",
        "{\"job_id\": \"a\", \"token_file\": \"\", \"servers\": []}"}) {
    { std::ofstream(JobFilePath(log_dir_)) << text; }
    const absl::Status status = ReadJobFile(log_dir_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), "remove it")) << status;
  }
}

TEST_F(JobFileTest, AFolderThatCannotBeWrittenIsNamed) {
  const absl::Status status = WriteRandomToken(folder_.Path("missing"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "missing/token")) << status;
}

}  // namespace
}  // namespace oarlock::cluster
