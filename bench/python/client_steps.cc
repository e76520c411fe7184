// Steps of the C++ client, for bench/python/client.py: for each line with a
// number N on standard input N steps, then one line with the median times of a
// pull and of a push in microseconds.
//
//   client_steps SERVERS TOKEN_FILE RANK WORLD TABLE KEEP_MEMORY(0 or 1)

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/call_and_wait.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mix.h"
#include "base/process/malloc.h"
#include "base/types.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/key_batch.h"
#include "client/server_connections.h"
#include "proto/v1/server_admin_tables.pb.h"

namespace oarlock {
namespace {

constexpr size_t kKeys = 13312;
constexpr size_t kDim = 16;
constexpr uint64_t kBatches = 20;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(char** argv) {
  if (std::atoi(argv[6]) != 0) KeepFreedMemory();
  client::ConnectionOptions options;
  options.endpoints = absl::StrSplit(argv[1], ',');
  options.security.token_file = argv[2];
  options.client_name = "client_steps";
  auto servers = client::ServerConnections::Connect(options);
  OARLOCK_CHECK(servers.ok());
  v1::RegisterWorkerRequest request;
  request.set_worker_index(std::atoi(argv[3]));
  request.set_min_workers(std::atoi(argv[4]));
  request.set_max_workers(std::atoi(argv[4]));
  auto job = client::GrpcJobClient::Register(servers->get(), request);
  OARLOCK_CHECK(job.ok());
  client::GrpcParameterClient parameters(servers->get(), (*job)->worker_index(),
                                         (*job)->generation());
  v1::ServerStatusResponse status;
  OARLOCK_CHECK(
      (*servers)
          ->CallWithRetries(
              ServerIndex(0),
              [&](grpc::ClientContext* context) {
                return (*servers)->servers()[0].admin->GetServerStatus(
                    context, {}, &status);
              })
          .ok());
  TableId table;
  for (const v1::TableStatus& each : status.tables()) {
    if (each.config().name() != argv[5]) continue;
    parameters.UseTable(each.config());
    table = TableId(each.config().id());
  }
  // The same batches as the other programs have, made before.
  std::vector<std::vector<Key>> batches(kBatches);
  for (uint64_t b = 0; b < kBatches; ++b) {
    for (size_t k = 0; k < kKeys; ++k) {
      batches[b].push_back(Key{Mix(b * kKeys + k) >> 24});
    }
  }
  std::vector<float> rows(kKeys * kDim);
  const std::vector<float> gradients(kKeys * kDim, 1e-3f);
  const Clock& clock = Clock::Monotonic();
  uint64_t step = 0;
  int count = 0;
  while (std::cin >> count) {
    std::vector<double> pulls;
    std::vector<double> pushes;
    for (int i = 0; i < count; ++i, ++step) {
      const std::vector<Key>& keys = batches[step % kBatches];
      const absl::Time begin = clock.Now();
      auto batch = std::make_shared<client::KeyBatch>();
      batch->Build(keys, parameters.partition_bits());
      OARLOCK_CHECK(CallAndWait([&](auto done) {
                      parameters.PullSparse(table, *batch, rows.data(), nullptr,
                                            batch, std::move(done));
                    }).ok());
      const absl::Time pulled = clock.Now();
      client::PushRequest push;
      push.sparse.push_back({table, batch.get(), gradients.data()});
      OARLOCK_CHECK(CallAndWait([&](auto done) {
                      parameters.Push(push, nullptr, batch, std::move(done));
                    }).ok());
      const absl::Time pushed = clock.Now();
      pulls.push_back(absl::ToDoubleMicroseconds(pulled - begin));
      pushes.push_back(absl::ToDoubleMicroseconds(pushed - pulled));
    }
    std::printf("%.1f %.1f\n", Median(pulls), Median(pushes));
    std::fflush(stdout);
  }
  return (*job)->Finish(absl::OkStatus()).ok() ? 0 : 1;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  return oarlock::Main(argv);
}
