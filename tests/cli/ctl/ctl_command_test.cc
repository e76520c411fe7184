#include "cli/ctl/ctl_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mix.h"
#include "cli/ctl/status_json.h"
#include "cli/ctl/status_text.h"
#include "tests/pserver/mini_job.h"

namespace oarlock::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result Ctl(std::vector<std::string> words) {
  // What is captured is ctl's alone: the servers run in this process, too.
  Log().set_level(spdlog::level::off);
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

nlohmann::json CtlJson(std::vector<std::string> words) {
  words.push_back("--json");
  const Result result = Ctl(words);
  EXPECT_EQ(result.code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

uint32_t PartitionOf(uint64_t key) {
  return PartitionOfMix(Mix(key), 4).value();  // MiniJob has 16 partitions.
}

// Pulls the key `times` times in one message.
void Pull(pserver::Client& client, uint64_t key, uint32_t times) {
  v1::PullSparseRequest request;
  request.mutable_header()->set_protocol_version(cluster::kProtocolVersion);
  request.mutable_header()->set_job_hash(cluster::JobHash("default"));
  request.set_table(1);
  request.add_partitions(PartitionOf(key));
  request.add_group_sizes(times);
  for (uint32_t i = 0; i < times; ++i) request.add_keys(key);
  v1::PullSparseResponse response;
  const absl::Status status =
      client.Data(&v1::ParameterService::Stub::PullSparse, request, &response);
  ASSERT_TRUE(status.ok()) << status;
}

// Two servers with table 1, key 0 pulled 25,600 times on server 1 and key 4 a
// fifth of that on server 0: 100 and 20 samples.
class HotKeysCtlTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kHotter = 0;  // in partition 14
  static constexpr uint64_t kOther = 4;

  void SetUp() override {
    ASSERT_GE(PartitionOf(kHotter), 8u);
    ASSERT_LT(PartitionOf(kOther), 8u);
    for (const uint32_t server : {0, 1}) {
      ASSERT_TRUE(job_.client(server).CreateTable(v1::ASYNC, 2).ok());
    }
    Pull(job_.client(1), kHotter, 25600);
    Pull(job_.client(0), kOther, 5120);
  }
  std::string endpoint(uint32_t server) {
    return job_.server(server).endpoint();
  }

  pserver::MiniJob job_{2, 1};
};

TEST_F(HotKeysCtlTest, AnyServerTellsOfAllKeysWithTheirShareOfTheJob) {
  for (const uint32_t server : {0, 1}) {
    const nlohmann::json json =
        CtlJson({"hot-keys", "--server", endpoint(server)});
    EXPECT_TRUE(json["silent_servers"].empty());
    ASSERT_EQ(json["tables"].size(), 1u);
    const nlohmann::json& table = json["tables"][0];
    EXPECT_EQ(table["name"], "embedding");
    EXPECT_EQ(table["pulled_rows"], 30720);
    EXPECT_EQ(table["pull_samples"], 120);
    EXPECT_EQ(table["pushed_rows"], 0);
    ASSERT_EQ(table["keys"].size(), 2u);
    const nlohmann::json& first = table["keys"][0];
    EXPECT_EQ(first["key"], "0");
    EXPECT_EQ(first["partition"], PartitionOf(kHotter));
    EXPECT_EQ(first["server"], 1);
    EXPECT_DOUBLE_EQ(first["pulls"]["share"].get<double>(), 25600. / 30720);
    EXPECT_EQ(first["pulls"]["rows"], 25600);
    EXPECT_GT(first["pulls"]["share_error"], .05);
    EXPECT_TRUE(first["pushes"]["share"].is_null());
    EXPECT_EQ(table["keys"][1]["key"], "4");
    EXPECT_EQ(table["keys"][1]["server"], 0);
  }
}

TEST_F(HotKeysCtlTest, TextIsATableOfTheTopKeys) {
  const Result result = Ctl({"hot-keys", "--table", "embedding", "--top", "1",
                             "--server", endpoint(0)});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("table 1 'embedding'  keys in pulls 30,720, 120 looked "
                        "at; in pushes 0, 0 looked at\n"));
  EXPECT_THAT(result.out, HasSubstr("\n  0  83.3333 %"));
  EXPECT_THAT(result.out, Not(HasSubstr("16.6667")));
}

TEST_F(HotKeysCtlTest, ATableThatIsNotThereIsAnError) {
  const Result result =
      Ctl({"hot-keys", "--table", "x", "--server", endpoint(0)});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("no sparse table is named 'x'; there are: embedding"));
  EXPECT_EQ(Ctl({"hot-keys", "--top", "0", "--server", endpoint(0)}).code, 2);
}

TEST_F(HotKeysCtlTest, SkewNamesTheServerAndThePartition) {
  const nlohmann::json json = CtlJson({"tables", "--server", endpoint(0)});
  const nlohmann::json& table = json["tables"][0];
  EXPECT_EQ(table["total"]["pulled_rows"], 30720);
  EXPECT_EQ(table["servers"][0]["pulled_rows"], 5120);
  EXPECT_EQ(table["servers"][1]["pulled_rows"], 25600);
  const nlohmann::json& servers = table["skew_across_servers"]["pulled_rows"];
  EXPECT_DOUBLE_EQ(servers["max_over_mean"].get<double>(), 25600. / 15360);
  EXPECT_EQ(servers["server"], 1);
  const nlohmann::json& partitions =
      table["skew_across_partitions"]["pulled_rows"];
  EXPECT_DOUBLE_EQ(partitions["max_over_mean"].get<double>(),
                   25600. * 16 / 30720);
  EXPECT_EQ(partitions["partition"], PartitionOf(kHotter));
  EXPECT_EQ(partitions["server"], 1);
  // Nothing was pushed, so there are no rows to be skewed.
  EXPECT_TRUE(
      table["skew_across_partitions"]["rows"]["max_over_mean"].is_null());

  const Result text = Ctl({"status", "--server", endpoint(1)});
  EXPECT_THAT(text.out, HasSubstr("embedding rows pulled            1.67  "
                                  "server 1              13.33  partition 14, "
                                  "server 1"));
}

TEST_F(HotKeysCtlTest, AServerThatIsGoneIsNamedAndTheRestIsShown) {
  job_.server(1).Shutdown();
  for (const char* verb : {"status", "tables", "hot-keys"}) {
    SCOPED_TRACE(verb);
    const nlohmann::json json = CtlJson({verb, "--server", endpoint(0)});
    ASSERT_EQ(json["silent_servers"].size(), 1u);
    EXPECT_EQ(json["silent_servers"][0]["server"], 1);
    EXPECT_EQ(json["tables"].size(), 1u);
    EXPECT_THAT(Ctl({verb, "--server", endpoint(0)}).out,
                HasSubstr("server 1 at 127.0.0.1:"));
  }
}

TEST(CtlCommandTest, StatusShowsJobWorkersAndServer) {
  pserver::MiniJob job(1, 2);
  const std::string server = job.server(0).endpoint();
  job.client(0).Register(1);
  const Result result = Ctl({"status", "--server", server});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("job 'default'  running"));
  EXPECT_THAT(result.out, HasSubstr("workers registered 1 of 2"));
  EXPECT_THAT(result.out, HasSubstr("alive"));
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat("     0  ", server)));
}

TEST(CtlCommandTest, JsonOfStatusHasJobServersAndTables) {
  pserver::MiniJob job(1, 1);
  job.client(0).Register(0);
  const nlohmann::json json =
      CtlJson({"status", "--server", job.server(0).endpoint()});
  EXPECT_EQ(json["job"]["job_id"], "default");
  EXPECT_EQ(json["job"]["workers"][0]["life"], "alive");
  ASSERT_EQ(json["servers"].size(), 1u);
  EXPECT_EQ(json["servers"][0]["endpoint"], job.server(0).endpoint());
  EXPECT_EQ(json["servers"][0]["server_generation"],
            job.server(0).generation().value());
  EXPECT_TRUE(json["tables"].empty());
}

TEST(CtlCommandTest, AnyServerTellsOfTheJob) {
  pserver::MiniJob job(2, 1);
  const Result result = Ctl({"status", "--server", job.server(1).endpoint()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("job 'default'  running"));
  EXPECT_THAT(result.out, HasSubstr(job.server(0).endpoint()));
  EXPECT_THAT(result.out, HasSubstr(job.server(1).endpoint()));
  EXPECT_EQ(result.err, "");
}

TEST(CtlCommandTest, WithoutTheCoordinatorTheServersStillTell) {
  pserver::MiniJob job(2, 1);
  job.server(0).Shutdown();
  const Result result = Ctl({"status", "--server", job.server(1).endpoint()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("server 0 at"));
  EXPECT_THAT(result.out, HasSubstr(job.server(1).endpoint()));
  EXPECT_THAT(result.err, HasSubstr(job.server(0).endpoint()));
}

TEST(CtlCommandTest, TablesShowsWhatTheServerHolds) {
  pserver::MiniJob job(1, 1);
  ASSERT_TRUE(job.client(0).CreateTable(v1::ASYNC, 7).ok());
  const Result result = Ctl({"tables", "--server", job.server(0).endpoint()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("embedding"));
  // SGD keeps no state beside the 7 floats; a row has 16 bytes of header and
  // ends at a multiple of 8.
  EXPECT_THAT(result.out, HasSubstr("sparse, dim 7, async, 48 bytes a row, 28 "
                                    "of them payload"));
  EXPECT_THAT(result.out, HasSubstr("admitted  rejected  evicted"));
}

TEST(CtlCommandTest, EvictSaysWhatItDidAndWhyItCannot) {
  pserver::MiniJob job(1, 1);
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
  result =
      Ctl({"evict", "--server", server, "--table", "e", "--rows_max", "100"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("no table is named 'e'"));
  EXPECT_EQ(Ctl({"evict", "--server", server}).code, 2);
}

TEST(CtlCommandTest, DrainEndsTheJob) {
  pserver::MiniJob job(1, 1);
  const Result result = Ctl({"drain", "--server", job.server(0).endpoint()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(job.server(0).Wait().ok());
}

TEST(CtlCommandTest, AnotherJobIsRefused) {
  pserver::MiniJob job(1, 1);
  const Result result =
      Ctl({"drain", "--job_id", "b", "--server", job.server(0).endpoint()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("belongs to job 'default'"));
}

TEST(CtlCommandTest, ServerThatIsNotThereIsAnErrorInOneLine) {
  int port = 0;
  {
    const pserver::Listener listener;
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

TEST(StatusTextTest, ATableWithAMemoryBudgetTellsWhereItsRowsAre) {
  std::vector<v1::ServerStatusResponse> servers(2);
  for (uint32_t s = 0; s < 2; ++s) {
    servers[s].set_server_index(s);
    v1::TableStatus* table = servers[s].add_tables();
    table->mutable_config()->set_id(1);
    table->mutable_config()->mutable_sparse()->set_dim(4);
    table->mutable_config()->mutable_sparse()->set_memory_budget_bytes(3 << 20);
    table->set_rows(1000 + s);
    table->set_memory_rows(100);
    table->set_cold_rows(900 + s);
    table->set_demoted_rows(5000);
    table->set_promoted_rows(4000);
    table->set_disk_bytes(1 << 20);
  }
  const std::vector<TableView> tables = ViewTables(servers);
  EXPECT_THAT(FormatTables(tables),
              HasSubstr("memory budget 3.0 MiB\n"
                        "server  rows in memory  on disk     disk  memory for "
                        "it  moved to disk   back\n"
                        "0                  100      900  1.0 MiB        0.0 "
                        "MiB          5,000  4,000\n"));
  EXPECT_THAT(FormatServers(servers), HasSubstr("of them on disk"));
  const nlohmann::ordered_json json = TablesJson(tables)[0];
  EXPECT_EQ(json["memory_budget_bytes"], 3 << 20);
  EXPECT_EQ(json["servers"][1]["cold_rows"], 901);
  EXPECT_EQ(json["total"]["memory_rows"], 200);
  EXPECT_EQ(json["total"]["cold_rows"], 1801);
  EXPECT_EQ(json["total"]["demoted_rows"], 10000);
  EXPECT_EQ(json["total"]["promoted_rows"], 8000);

  servers[0]
      .mutable_tables(0)
      ->mutable_config()
      ->mutable_sparse()
      ->clear_memory_budget_bytes();
  servers.resize(1);
  EXPECT_THAT(FormatTables(ViewTables(servers)), Not(HasSubstr("budget")));
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
}  // namespace oarlock::cli
