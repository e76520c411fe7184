// A faulty network between the servers of a job and all others, for tests.
//
//   faulty_proxy SEED ROUTES DATA_RATES CONTROL_RATES CUT_INTERVAL_MS
//
// ROUTES are "PORT=TARGET_PORT,...", all on 127.0.0.1; whoever calls PORT gets
// the server at TARGET_PORT, which may come and go. Rates are as
// ParseFaultRates has them; connections are cut about every CUT_INTERVAL_MS on
// each route, 0 never. Says "forwards" on stderr when it does. Prints what it
// has done so far, one line of JSON, on SIGUSR1; and on SIGTERM, which ends it.

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "tests/stress/faulty_proxy.h"

namespace oarlock {
namespace {

absl::Status Run(const std::vector<std::string>& arguments,
                 const sigset_t& signals, const Clock& clock) {
  FaultyProxyOptions options;
  uint64_t seed = 0;
  int cut_interval_ms = 0;
  if (arguments.size() != 5 || !absl::SimpleAtoi(arguments[0], &seed) ||
      !absl::SimpleAtoi(arguments[4], &cut_interval_ms)) {
    return absl::InvalidArgumentError(
        "usage: faulty_proxy SEED ROUTES DATA_RATES CONTROL_RATES "
        "CUT_INTERVAL_MS");
  }
  OARLOCK_ASSIGN_OR_RETURN(options.data, ParseFaultRates(arguments[2]));
  OARLOCK_ASSIGN_OR_RETURN(options.control, ParseFaultRates(arguments[3]));
  if (cut_interval_ms > 0) {
    options.mean_cut_interval = absl::Milliseconds(cut_interval_ms);
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<FaultyRoute> routes,
                           ParseFaultyRoutes(arguments[1]));
  std::vector<std::unique_ptr<FaultyProxy>> proxies;
  for (const FaultyRoute& route : routes) {
    options.route = route;
    options.seed = DeriveSeed(seed, proxies.size());
    OARLOCK_ASSIGN_OR_RETURN(proxies.emplace_back(),
                             FaultyProxy::Start(options, clock));
  }
  Log().info("forwards {}, seed {}", arguments[1], seed);
  int signal = 0;
  do {
    sigwait(&signals, &signal);
    FaultCounts counts;
    for (const auto& proxy : proxies) counts.Add(proxy->counts());
    std::printf("%s\n", counts.ToJson(seed).c_str());
    std::fflush(stdout);
  } while (signal == SIGUSR1);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  // Before any thread is started, which inherits it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  InitLogging("proxy");
  const absl::Status status =
      Run({argv + 1, argv + argc}, signals, Clock::Monotonic());
  if (!status.ok()) Log().error("{}", std::string(status.message()));
  return status.ok() ? 0 : 2;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) { return oarlock::Main(argc, argv); }
