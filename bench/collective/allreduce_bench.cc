// The product's all-reduce of floats between processes over loopback: two, or
// as many as --ranks says.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/collective/ranks.h"
#include "bench/common/repetitions.h"
#include "collective/group.h"

namespace oarlock_bench {
namespace {

constexpr int kMaxRanks = 64;

// A port that is free now.
int FreePort() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  Require(bind(probe, generic, size) == 0, "bind");
  Require(getsockname(probe, generic, &size) == 0, "getsockname");
  close(probe);
  return ntohs(address.sin_port);
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  oarlock::collective::GroupOptions options;
  const int port = FreePort();
  const int count = std::atoi(FlagValue(argc, argv, "ranks", "2").c_str());
  if (count < 2 || count > kMaxRanks) {
    std::fprintf(stderr, "--ranks is %d; legal is 2 to %d\n", count, kMaxRanks);
    return 2;
  }
  options.endpoints = {absl::StrCat("127.0.0.1:", port)};
  // Of the others only the host is used.
  for (int other = 1; other < count; ++other) {
    options.endpoints.push_back(absl::StrCat("127.0.0.1:", other));
  }
  Ranks ranks(count);
  options.rank = ranks.rank();
  auto communicator = oarlock::collective::JoinGroup(options);
  if (!communicator.ok()) {
    std::fprintf(stderr, "%s\n", communicator.status().ToString().c_str());
    return 1;
  }
  std::vector<float> values(size_t{16} << 20, 0.0f);
  const auto call = [&](const Work& work) {
    const absl::Status status =
        (*communicator)
            ->AllReduceSum(
                absl::MakeSpan(values.data(), work.num_bytes / sizeof(float)),
                static_cast<oarlock::collective::WireFormat>(work.kind));
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::_Exit(1);
    }
  };
  if (ranks.rank() != 0) {
    ranks.Serve(call);
    (*communicator)->Leave().IgnoreError();
    return 0;
  }
  Repetitions repetitions;
  const auto add = [&](const std::string& name, size_t bytes, uint64_t calls,
                       oarlock::collective::WireFormat format) {
    const Work work = {static_cast<uint64_t>(format), bytes, calls};
    repetitions.Add(name, [&, work] { return ranks.Measure(work, call); });
  };
  add("64 MB", size_t{64} << 20, 5, oarlock::collective::WireFormat::kFloat32);
  add("64 MB as bfloat16", size_t{64} << 20, 5,
      oarlock::collective::WireFormat::kBfloat16);
  add("8 MB", size_t{8} << 20, 20, oarlock::collective::WireFormat::kFloat32);
  add("1 MB", size_t{1} << 20, 100, oarlock::collective::WireFormat::kFloat32);
  add("128 KB", size_t{128} << 10, 400,
      oarlock::collective::WireFormat::kFloat32);
  add("16 KB", size_t{16} << 10, 1000,
      oarlock::collective::WireFormat::kFloat32);
  add("1 KB", 1024, 1000, oarlock::collective::WireFormat::kFloat32);
  return repetitions.Run(argc, argv);
}
