#include "pserver/fencing/ledger_reporter.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace oarlock::pserver {

void LedgerReporter::Fill(v1::ServerHeartbeatRequest* request) {
  for (Wanted& wanted : wanted_) {
    std::optional<v1::WorkerLedger> ledger =
        ledger_->Collect(wanted.worker, wanted.generation);
    wanted.sent = ledger.has_value();
    if (!wanted.sent) continue;
    ledger->set_joined_rounds(
        round_membership_->WasRemoved(wanted.worker, wanted.generation));
    *request->add_ledgers() = *std::move(ledger);
  }
}

void LedgerReporter::Apply(const v1::ServerHeartbeatResponse& response) {
  std::vector<Wanted> wanted;
  for (const v1::WorkerIncarnation& one : response.wanted_ledgers()) {
    Wanted next = {.worker = WorkerIndex(one.worker_index()),
                   .generation = Generation(one.worker_generation())};
    for (const Wanted& before : wanted_) {
      if (before.worker == next.worker &&
          before.generation == next.generation) {
        next.reported = before.reported || before.sent;
      }
    }
    wanted.push_back(next);
  }
  wanted_ = std::move(wanted);

  for (const v1::WorkerIncarnation& one : response.forgotten()) {
    const WorkerIndex worker(one.worker_index());
    const Generation last(one.worker_generation());
    Generation& forgotten = forgotten_[worker];
    // The ledger first: once Forget returns true, no message is on its way to
    // the tables.
    if (last <= forgotten || !ledger_->Forget(worker, last)) continue;
    registry_->ForgetWorker(worker, last);
    forgotten = last;
  }
}

bool LedgerReporter::due() const {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [](const Wanted& wanted) { return !wanted.reported; });
}

}  // namespace oarlock::pserver
