#include "pserver/rpc/call_metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace oarlock::pserver {
namespace {

grpc::ByteBuffer BytesOf(size_t size) {
  const grpc::Slice slice(std::string(size, 'x'));
  return grpc::ByteBuffer(&slice, 1);
}

// "name{method,code}" -> value; of a histogram its count.
std::map<std::string, double> Collected(const CallMetrics& metrics) {
  MetricsSnapshot snapshot;
  metrics.Collect(&snapshot);
  std::map<std::string, double> values;
  for (const auto& [name, family] : snapshot.families()) {
    for (const MetricsSnapshot::Sample& sample : family.samples) {
      std::string key(name);
      for (const auto& label : sample.labels) key += " " + label.second;
      values[key] = sample.value;
      for (const uint64_t count : sample.histogram.counts) {
        values[key] += static_cast<double>(count);
      }
    }
  }
  return values;
}

TEST(CallMetricsTest, CallsOfManyThreadsAreCountedByMethodAndCode) {
  constexpr int kThreads = 4;
  constexpr int kEach = 5000;
  const FakeClock clock;
  const auto metrics = std::make_shared<CallMetrics>(clock);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const grpc::ByteBuffer request = BytesOf(10);
      const absl::StatusOr<grpc::ByteBuffer> response = BytesOf(30);
      const absl::StatusOr<grpc::ByteBuffer> error =
          absl::AbortedError("fenced");
      for (int i = 0; i < kEach; ++i) {
        CallMetrics::Call(metrics, CallMethod::kPullSparse, request)
            .End(response);
        CallMetrics::Call(metrics, CallMethod::kPushDense, request)
            .End(i % 5 == 0 ? error : response);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  constexpr double kCalls = kThreads * kEach;
  std::map<std::string, double> values = Collected(*metrics);
  EXPECT_EQ(values["oarlock_server_calls_total PullSparse OK"], kCalls);
  EXPECT_EQ(values["oarlock_server_calls_total PushDense OK"], kCalls * 4 / 5);
  EXPECT_EQ(values["oarlock_server_calls_total PushDense ABORTED"], kCalls / 5);
  EXPECT_EQ(values["oarlock_server_calls_total PushSparse OK"], 0);
  EXPECT_EQ(values.count("oarlock_server_calls_total PullSparse ABORTED"), 0u);
  EXPECT_EQ(values["oarlock_server_request_bytes_total PushDense"],
            kCalls * 10);
  EXPECT_EQ(values["oarlock_server_response_bytes_total PushDense"],
            kCalls * 4 / 5 * 30);
  EXPECT_EQ(values["oarlock_server_call_seconds PullSparse"], kCalls);
  EXPECT_EQ(values["oarlock_server_call_seconds PushDense"], kCalls);
}

TEST(CallMetricsTest, CallThatIsAnsweredLateKeepsTheCounters) {
  const FakeClock clock;
  auto metrics = std::make_shared<CallMetrics>(clock);
  CallMetrics::Call call(metrics, CallMethod::kPushSparse, BytesOf(1));
  const std::weak_ptr<CallMetrics> counters = metrics;
  metrics.reset();
  EXPECT_FALSE(counters.expired());
  call.End(absl::UnavailableError("the server is going away"));
}

}  // namespace
}  // namespace oarlock::pserver
