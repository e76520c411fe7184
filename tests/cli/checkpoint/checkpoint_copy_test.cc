#include "cli/checkpoint/checkpoint_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Refusal(const std::string& from, const std::string& to) {
  const absl::Status status = CheckCopy(from, to);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(CheckpointCopyTest, FoldersAndUrlsAreLegal) {
  for (const std::string place :
       {"/backup/ctr", "backup", "s3://bucket/ctr", "s3://bucket",
        "s3://bucket/a@b", "gs://bucket/ctr", "file:///backup/ctr",
        "abfs://container@account.dfs.core.windows.net/ctr",
        "hdfs://user@host:8020/ctr", "sftp://user@host/ctr", "./a::b"}) {
    EXPECT_TRUE(CheckCopy("/checkpoints", place).ok()) << place;
    EXPECT_TRUE(CheckCopy(place, "/checkpoints").ok()) << place;
  }
}

TEST(CheckpointCopyTest, CredentialsInAUrlAreRefusedAndNotRepeated) {
  for (const std::string place :
       {"s3://sesame@bucket/ctr", "s3://id:sesame@bucket/ctr",
        "s3://id:ses/ame@bucket/ctr", "gs://sesame@bucket/ctr",
        "sftp://user:sesame@host/ctr", "sftp://user%3Asesame@host/ctr",
        "s3://bucket/ctr?secret=sesame", "https://host/ctr#sesame"}) {
    for (const std::string& refusal :
         {Refusal(place, "/backup"), Refusal("/checkpoints", place)}) {
      EXPECT_THAT(refusal,
                  AllOf(HasSubstr("AWS_ACCESS_KEY_ID"),
                        Not(HasSubstr("sesame")), Not(HasSubstr("ses/ame"))));
    }
  }
}

TEST(CheckpointCopyTest, PlacesThatNobodyElseReachesAreRefused) {
  EXPECT_THAT(Refusal("/checkpoints", ""), HasSubstr("TO of copy is empty"));
  EXPECT_THAT(Refusal("", "/backup"), HasSubstr("FROM of copy is empty"));
  EXPECT_THAT(Refusal("/checkpoints", "memory://backup"), HasSubstr("memory"));
  EXPECT_THAT(Refusal("/checkpoints", "simplecache::s3://bucket/ctr"),
              HasSubstr("chain"));
}

TEST(CheckpointCopyTest, OneFolderIsNotTheOtherNorInIt) {
  const std::string folder = storage::FreshFolder("copy");
  std::filesystem::create_directories(folder + "/a");
  std::filesystem::create_directory_symlink(folder + "/a", folder + "/link");
  for (const std::string other :
       {"/a", "/a/", "/a/ckpt-00000001", "/link", "/link/new", "/b/../a", ""}) {
    EXPECT_THAT(Refusal(folder + "/a", folder + other),
                HasSubstr("one is the other"));
    EXPECT_THAT(Refusal("file://" + folder + other, folder + "/a"),
                HasSubstr("one is the other"));
  }
  EXPECT_THAT(Refusal("s3://bucket/a", "s3://bucket/a/"),
              HasSubstr("one is the other"));
  EXPECT_TRUE(CheckCopy(folder + "/a", folder + "/ab").ok());
  EXPECT_TRUE(CheckCopy("s3://bucket/a", "s3://bucket/ab").ok());
}

TEST(CheckpointCopyTest, AnInterpreterThatIsNotThereIsNamed) {
  const absl::Status status =
      BecomeCopy("/checkpoints", "/backup", "/no/such/python");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'/no/such/python'"), HasSubstr("--python")));
}

}  // namespace
}  // namespace oarlock::cli
