#include "fleet/role/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/base/skippable_clock.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;

constexpr char kLoopback[] = "127.0.0.1";
constexpr Metric kCount = {MetricKind::kCounter, "oarlock_test_rows_total",
                           "rows", "table", "Rows of a test."};
constexpr Metric kSeconds = {MetricKind::kHistogram, "oarlock_test_seconds",
                             "seconds", "", "How long a test takes."};

// What the server on the port answers to a GET, header and body; empty when
// nobody listens, or answers within a second.
std::string Get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  OARLOCK_CHECK(fd >= 0);
  const timeval limit = {.tv_sec = 1, .tv_usec = 0};
  OARLOCK_CHECK(
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string response;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
      0) {
    const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\n\r\n");
    // Who has accepted may be gone by now: no response then.
    const bool asked = send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
                       static_cast<ssize_t>(request.size());
    char buffer[4096];
    ssize_t n;
    while (asked && (n = read(fd, buffer, sizeof(buffer))) > 0) {
      response.append(buffer, n);
    }
  }
  close(fd);
  return response;
}

const Clock& TestClock() {
  static const SkippableClock* const clock = new SkippableClock;
  return *clock;
}

std::unique_ptr<MetricsServer> ListenAnywhere() {
  return *MetricsServer::Listen(kLoopback, 0, TestClock());
}

TEST(MetricsServerTest, EachScrapeTellsWhatTheSourceCollectsThen) {
  const std::unique_ptr<MetricsServer> server = ListenAnywhere();
  EXPECT_THAT(Get(server->port(), "/metrics"), HasSubstr("404"));
  std::atomic<int> rows = 3;
  server->Serve([&](MetricsSnapshot* snapshot) {
    snapshot->Add(kCount, rows, {{"table", "a\"b"}});
    snapshot->Add(kSeconds, {.bounds = {.5, 1}, .counts = {2, 0, 4}, .sum = 9});
  });
  std::string response = Get(server->port(), "/metrics");
  EXPECT_THAT(response, HasSubstr(" 200 "));
  EXPECT_THAT(response, HasSubstr("# TYPE oarlock_test_rows_total counter\n"));
  EXPECT_THAT(response,
              HasSubstr("oarlock_test_rows_total{table=\"a\\\"b\"} 3\n"));
  EXPECT_THAT(response, HasSubstr("oarlock_test_seconds_count 6\n"));
  EXPECT_THAT(response, HasSubstr("oarlock_test_seconds_sum 9\n"));
  EXPECT_THAT(response, HasSubstr("oarlock_test_seconds_bucket{le=\"1\"} 2\n"));
  EXPECT_THAT(response,
              HasSubstr("oarlock_test_seconds_bucket{le=\"+Inf\"} 6\n"));
  rows = 4;
  EXPECT_THAT(Get(server->port(), "/metrics"),
              HasSubstr("oarlock_test_rows_total{table=\"a\\\"b\"} 4\n"));
}

TEST(MetricsServerTest, SourceIsNotCalledOnceTheServerIsGone) {
  std::unique_ptr<MetricsServer> server = ListenAnywhere();
  const int port = server->port();
  auto calls = std::make_unique<std::atomic<int>>(0);
  server->Serve([&](MetricsSnapshot*) { ++*calls; });
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 3; ++i) {
    scrapers.emplace_back([port] {
      // Until nobody listens any more.
      while (!Get(port, "/metrics").empty()) {
      }
    });
  }
  while (*calls < 10) std::this_thread::yield();
  server.reset();
  calls.reset();
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_EQ(Get(port, "/metrics"), "");
}

TEST(MetricsServerTest, PortInUseIsAlreadyExistsAndNamesThePort) {
  const std::unique_ptr<MetricsServer> first = ListenAnywhere();
  const absl::Status second =
      MetricsServer::Listen(kLoopback, first->port(), TestClock()).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr(absl::StrCat("port ", first->port(), " on 127.0.0.1")));
}

TEST(MetricsServerTest, AddressesThatCannotBeAreRefused) {
  EXPECT_EQ(
      MetricsServer::Listen(kLoopback, 65536, TestClock()).status().code(),
      absl::StatusCode::kInvalidArgument);
  // A documentation address, which no machine has.
  EXPECT_EQ(MetricsServer::Listen("192.0.2.1", 0, TestClock()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(MetricsServerTest, HostMayBeANameOrAnIpv6Address) {
  EXPECT_TRUE(MetricsServer::Listen("localhost", 0, TestClock()).ok());
  const absl::StatusOr<std::unique_ptr<MetricsServer>> ipv6 =
      MetricsServer::Listen("[::1]", 0, TestClock());
  // Not every machine has it.
  EXPECT_TRUE(ipv6.ok() || absl::IsFailedPrecondition(ipv6.status()))
      << ipv6.status();
}

}  // namespace
}  // namespace oarlock
