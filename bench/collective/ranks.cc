#include "bench/collective/ranks.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace oarlock_bench {

void Require(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::_Exit(1);
}

TwoRanks::TwoRanks() {
  int pair[2];
  Require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
  const pid_t child = fork();
  Require(child >= 0, "fork");
  rank_ = child == 0 ? 1 : 0;
  if (rank_ == 1) prctl(PR_SET_PDEATHSIG, SIGKILL);
  pipe_ = pair[rank_];
  close(pair[1 - rank_]);
}

Figures TwoRanks::Measure(const Work& work,
                          const std::function<void(const Work&)>& call) {
  Require(write(pipe_, &work, sizeof(work)) == sizeof(work), "write");
  // Beyond the clock: the first call also waits for the other's start.
  call(work);
  const double cpu = ProcessCpu();
  std::vector<double> seconds;
  for (uint64_t i = 0; i < work.num_calls; ++i) {
    const double start = Now();
    call(work);
    seconds.push_back(Now() - start);
  }
  double other_cpu = 0;
  const double own_cpu = ProcessCpu() - cpu;
  Require(read(pipe_, &other_cpu, sizeof(other_cpu)) == sizeof(other_cpu),
          "read");
  const double p50 = Median(seconds);
  return {{"p50_us", p50 * 1e6},
          {"bytes_per_second", static_cast<double>(work.num_bytes) / p50},
          {"cpu_us",
           (own_cpu + other_cpu) * 1e6 / static_cast<double>(work.num_calls)}};
}

void TwoRanks::Serve(const std::function<void(const Work&)>& call) {
  Work work;
  while (read(pipe_, &work, sizeof(work)) == sizeof(work)) {
    call(work);
    const double cpu = ProcessCpu();
    for (uint64_t i = 0; i < work.num_calls; ++i) call(work);
    const double used = ProcessCpu() - cpu;
    Require(write(pipe_, &used, sizeof(used)) == sizeof(used), "write");
  }
}

}  // namespace oarlock_bench
