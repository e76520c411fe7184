#include "bench/collective/ranks.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace oarlock_bench {

void Require(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::_Exit(1);
}

Ranks::Ranks(int count) {
  for (int other = 1; other < count; ++other) {
    int pair[2];
    Require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    const pid_t child = fork();
    Require(child >= 0, "fork");
    if (child == 0) {
      rank_ = other;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Ends of those before belong to rank 0 alone: each sees its death.
      for (const int pipe : pipes_) close(pipe);
      pipes_ = {pair[1]};
      close(pair[0]);
      return;
    }
    pipes_.push_back(pair[0]);
    close(pair[1]);
  }
}

Figures Ranks::Measure(const Work& work,
                       const std::function<void(const Work&)>& call) {
  for (const int pipe : pipes_) {
    Require(write(pipe, &work, sizeof(work)) == sizeof(work), "write");
  }
  // Beyond the clock: the first call also waits for the others' start.
  call(work);
  const double cpu = ProcessCpu();
  std::vector<double> seconds;
  for (uint64_t i = 0; i < work.num_calls; ++i) {
    const double start = Now();
    call(work);
    seconds.push_back(Now() - start);
  }
  double all_cpu = ProcessCpu() - cpu;
  for (const int pipe : pipes_) {
    double other_cpu = 0;
    Require(read(pipe, &other_cpu, sizeof(other_cpu)) == sizeof(other_cpu),
            "read");
    all_cpu += other_cpu;
  }
  const double p50 = Median(seconds);
  return {{"p50_us", p50 * 1e6},
          {"bytes_per_second", static_cast<double>(work.num_bytes) / p50},
          {"cpu_us", all_cpu * 1e6 / static_cast<double>(work.num_calls)}};
}

void Ranks::Serve(const std::function<void(const Work&)>& call) {
  const int pipe = pipes_[0];
  Work work;
  while (read(pipe, &work, sizeof(work)) == sizeof(work)) {
    call(work);
    const double cpu = ProcessCpu();
    for (uint64_t i = 0; i < work.num_calls; ++i) call(work);
    const double used = ProcessCpu() - cpu;
    Require(write(pipe, &used, sizeof(used)) == sizeof(used), "write");
  }
}

}  // namespace oarlock_bench
