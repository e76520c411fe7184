#include "worker/epoch/dense_copies.h"

#include <cstdint>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "optim/rules.h"
#include "worker/cut/cut_marker.h"

namespace oarlock::worker {
namespace {

// Below this many exchanges of a copy a user is told.
constexpr int64_t kFewExchanges = 100;

// How many steps a copy makes in all epochs; 0: that is not known.
int64_t StepsOfCopy(const EpochContext& context, int64_t num_copies,
                    int64_t step_examples) {
  // More files come.
  if (!context.config->watch_dir().empty()) return 0;
  return static_cast<int64_t>(context.num_examples) * context.config->epochs() /
         (num_copies * step_examples);
}

uint32_t DenseIntervalSteps(const EpochContext& context, int num_copies,
                            int64_t step_examples) {
  const v1::JobConfig& config = *context.config;
  if (config.dense_interval_steps() > 0) return config.dense_interval_steps();
  // A copy within the process costs less than applying steps here.
  if (context.parameters->in_process()) return 1;
  const int64_t copies = int64_t{context.job->num_workers()} * num_copies;
  const int64_t steps = StepsOfCopy(context, copies, step_examples);
  if (steps > 0 && steps < kFewExchanges && context.cuts != nullptr &&
      context.phase.epoch == 0 &&
      context.job->worker_index() == WorkerIndex(0)) {
    Log().info(
        "a thread makes about {} steps in this job, few for parameters that "
        "{} threads change: each step's gradients are pushed at once{}",
        steps, copies,
        copies > 1 ? "; --dense_quorum 1 makes one update of what all push"
                   : "");
  }
  return DefaultDenseInterval(copies, step_examples, steps);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<DenseCopy>>> MakeDenseCopies(
    const EpochContext& context, int num_copies, int64_t step_examples) {
  OARLOCK_RETURN_IF_ERROR(context.dense->Pull());
  OARLOCK_ASSIGN_OR_RETURN(const optim::UpdateRule rule,
                           optim::UpdateRule::Create(context.dense_optimizer));
  const uint32_t interval =
      DenseIntervalSteps(context, num_copies, step_examples);
  std::vector<std::unique_ptr<DenseCopy>> copies;
  for (int i = 0; i < num_copies; ++i) {
    copies.push_back(
        std::make_unique<DenseCopy>(rule, *context.dense->Current(), interval));
  }
  return copies;
}

void FlushDenseCopy(const EpochContext& context, DenseCopy* copy, uint64_t cut,
                    client::ParameterClient::Done done) {
  if (!copy->HasGradients()) return done(absl::OkStatus());
  DenseCopy::Exchange exchange = copy->TakeExchange(context.dense_table);
  if (context.dense_table == TableId(0)) return done(absl::OkStatus());
  client::PushRequest push;
  push.epoch = context.phase.epoch;
  push.cut = cut;
  push.dense.push_back(exchange.gradients);
  push.dense_examples = std::move(exchange.examples);
  context.cuts->Push(context.phase_name, push, nullptr, exchange.memory,
                     std::move(done));
}

}  // namespace oarlock::worker
