#include "pserver/checkpoint/logged_evictions.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "sparse_table/rules/eviction.h"

namespace oarlock::pserver {

EvictionLoop::DoStep LogEvictions(TableRegistry* registry, ServerLog* log,
                                  CutGate* gate) {
  if (log == nullptr) return EvictionLoop::DoUnrecorded;
  return [=](const PartitionEviction& what,
             sparse_table::EvictionStep& step) -> absl::Status {
    OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry, registry->Find(what.table));
    absl::Status outcome;
    entry->aggregator->BetweenRounds([&](uint64_t complete_rounds) {
      gate->Exclude([&] {
        const absl::StatusOr<absl::Span<const Key>> keys = step.Choose();
        outcome = keys.ok() ? log->AppendEviction(what, complete_rounds, *keys)
                            : keys.status();
      });
      // The partition is locked until this is done.
      if (outcome.ok()) outcome = step.Erase();
    });
    return outcome;
  };
}

}  // namespace oarlock::pserver
