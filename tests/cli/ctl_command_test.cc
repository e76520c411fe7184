#include "cli/ctl_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "cli/status_text.h"
#include "tests/pserver/mini_job.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result Ctl(std::vector<std::string> words) {
  words.insert(words.begin(), {"oarlock", "ctl"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Result result;
  result.code = RunCtl(static_cast<int>(argv.size()), argv.data());
  result.out = ::testing::internal::GetCapturedStdout();
  result.err = ::testing::internal::GetCapturedStderr();
  return result;
}

TEST(CtlCommandTest, StatusShowsJobWorkersAndServer) {
  MiniJob job(1, 2);
  const std::string server = job.server(0).endpoint();
  job.client(0).Register(1);
  const Result result = Ctl({"status", "--server", server});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("job 'default'  running"));
  EXPECT_THAT(result.out, HasSubstr("workers registered 1 of 2"));
  EXPECT_THAT(result.out, HasSubstr("alive"));
  EXPECT_THAT(result.out, HasSubstr("server 0"));
}

TEST(CtlCommandTest, JsonIsOneObject) {
  MiniJob job(1, 1);
  const Result result =
      Ctl({"status", "--json", "--server", job.server(0).endpoint()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"job_id\": \"default\""));
  EXPECT_THAT(result.out, Not(HasSubstr("server_index")));
}

TEST(CtlCommandTest, OtherServersTellOfThemselves) {
  MiniJob job(2, 1);
  const Result result = Ctl({"status", "--server", job.server(1).endpoint()});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("server 1"));
  EXPECT_THAT(result.err, HasSubstr("ask server 0 at"));
}

TEST(CtlCommandTest, TablesShowsWhatTheServerHolds) {
  MiniJob job(1, 1);
  ASSERT_TRUE(job.client(0).CreateTable(v1::ASYNC, 7).ok());
  const Result result = Ctl({"tables", "--server", job.server(0).endpoint()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("embedding"));
  EXPECT_THAT(result.out, HasSubstr("sparse, dim 7"));
  EXPECT_THAT(result.out, HasSubstr("admitted  rejected  evicted"));
}

TEST(CtlCommandTest, EvictSaysWhatItDidAndWhyItCannot) {
  MiniJob job(1, 1);
  ASSERT_TRUE(job.client(0).CreateTable(v1::ASYNC, 7).ok());
  const std::string server = job.server(0).endpoint();
  Result result = Ctl({"evict", "--server", server, "--table", "embedding",
                       "--idle_ticks", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("evicted 0 rows"));
  result = Ctl({"evict", "--server", server, "--table", "embedding"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("give idle_ticks, score_min or rows_max"));
  result = Ctl({"evict", "--server", server, "--table", "embedding",
                "--score_min", "1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("accessor plain"));
  result = Ctl({"evict", "--server", server, "--table", "e", "--rows_max",
                "100"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("no table is named 'e'"));
  EXPECT_EQ(Ctl({"evict", "--server", server}).code, 2);
}

TEST(CtlCommandTest, DrainEndsTheJob) {
  MiniJob job(1, 1);
  const Result result = Ctl({"drain", "--server", job.server(0).endpoint()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(job.server(0).Wait().ok());
}

TEST(CtlCommandTest, AnotherJobIsRefused) {
  MiniJob job(1, 1);
  const Result result =
      Ctl({"drain", "--job_id", "b", "--server", job.server(0).endpoint()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("belongs to job 'default'"));
}

TEST(CtlCommandTest, ServerThatIsNotThereIsAnErrorInOneLine) {
  int port = 0;
  {
    const Listener listener;
    port = listener.port();
  }
  const Result result =
      Ctl({"status", "--server", absl::StrCat("127.0.0.1:", port)});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("127.0.0.1:", port)));
}

TEST(CtlCommandTest, WrongCommandLinesExitWithTwo) {
  EXPECT_EQ(Ctl({}).code, 2);
  EXPECT_EQ(Ctl({"status"}).code, 2);
  EXPECT_EQ(Ctl({"stats", "--server", "127.0.0.1:1"}).code, 2);
  EXPECT_EQ(Ctl({"status", "--servre", "127.0.0.1:1"}).code, 2);
  EXPECT_EQ(Ctl({"--help"}).code, 0);
}

TEST(StatusTextTest, ColumnsAreAlignedByTheirContent) {
  EXPECT_EQ(FormatColumns({{"name", "rows"}, {"a", "12"}, {"bcdef", "3"}}),
            "name   rows\n"
            "a        12\n"
            "bcdef     3\n");
}

TEST(StatusTextTest, WhatIsNotKnownIsADash) {
  v1::JobStatusResponse status;
  v1::PhaseStatus* phase = status.add_phases();
  phase->mutable_progress()->set_phase("train");
  phase->mutable_progress()->set_examples(1234567);
  phase->set_seconds(10);
  phase->set_logloss(0.45678);
  phase->set_auc(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(FormatJobStatus(status),
              HasSubstr("train/0     -  1,234,567     123,456   0.4568    -"));
}

}  // namespace
}  // namespace oarlock
