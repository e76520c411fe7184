#include "pserver/server_state.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "pserver/checkpoint/generation_file.h"
#include "storage/file_system.h"

namespace oarlock::pserver {
namespace {

coordinator::CoordinatorOptions MakeCoordinatorOptions(
    const ServerOptions& options) {
  coordinator::CoordinatorOptions result;
  result.job_id = options.job_id;
  result.num_workers = options.num_workers;
  result.stay = options.stay;
  result.max_workers = options.max_workers();
  if (options.roll_back.has_value()) {
    result.first_run = options.roll_back->next_run;
    result.rolled_back = options.roll_back->reason;
  }
  result.num_servers = options.server_endpoints.size();
  result.lease = options.lease;
  result.restart_grace = options.restart_grace;
  result.start_timeout = options.start_timeout;
  result.drain_grace = options.drain_grace;
  result.tick = options.tick;
  result.tick_per_epoch = options.tick_per_epoch;
  return result;
}

}  // namespace

ServerState::ServerState(const ServerOptions& options,
                         const coordinator::ReplayDecision& decision,
                         Generation generation)
    : generation(generation),
      map(cluster::PartitionMap::Even(options.num_partitions,
                                      options.server_endpoints.size())),
      fences(std::max(options.max_workers(), decision.num_workers),
             WorkerFences::Start::kAfterFirstUpdate),
      hold_budget(options.max_held_bytes),
      push_ledger(&fences),
      registry(map, ServerIndex(options.server_index),
               *options.clocks.monotonic, options.tier_dir, generation),
      round_membership(&fences, &registry),
      ledger_reporter(&push_ledger, &registry, &round_membership),
      coordinator(
          options.server_index == 0
              ? std::make_unique<coordinator::Coordinator>(
                    MakeCoordinatorOptions(options), *options.clocks.wall)
              : nullptr),
      cut_gate(&hold_budget) {}

absl::StatusOr<std::unique_ptr<ServerState>> ServerState::Create(
    const ServerOptions& options, const coordinator::ReplayDecision& decision,
    const std::string& token) {
  // Without a folder no process comes after this one.
  const std::optional<RollBackOptions>& roll_back = options.roll_back;
  const GenerationFile file(storage::FileSystem::Real(), options.checkpoint_dir,
                            ServerIndex(options.server_index));
  const absl::Time now = options.clocks.wall->Now();
  Generation generation(std::max<int64_t>(1, absl::ToUnixMillis(now)));
  if (roll_back.has_value()) {
    generation = roll_back->generation;
  } else if (!options.checkpoint_dir.empty()) {
    OARLOCK_ASSIGN_OR_RETURN(generation, file.Next(now));
  }
  auto state = absl::WrapUnique(new ServerState(options, decision, generation));
  if (!options.checkpoint_dir.empty()) {
    OARLOCK_ASSIGN_OR_RETURN(
        state->checkpoints,
        ServerCheckpoints::Create(options, decision, token, &state->map,
                                  &state->registry, &state->push_ledger,
                                  state->coordinator.get(), &state->cut_gate));
    // Only now is it sure that the folder is not another job's.
    OARLOCK_RETURN_IF_ERROR(file.Keep(generation));
  } else if (!options.load.empty()) {
    OARLOCK_RETURN_IF_ERROR(LoadParameters(
        options.load, ServerIndex(options.server_index), state->map,
        *options.clocks.monotonic, &state->registry, state->coordinator.get()));
  }
  if (roll_back.has_value()) {
    for (const v1::TableConfig& table : roll_back->tables) {
      if (state->registry.Find(TableId(table.id())).ok()) continue;
      OARLOCK_RETURN_IF_ERROR(state->registry.Create(table));
    }
  }
  return state;
}

}  // namespace oarlock::pserver
