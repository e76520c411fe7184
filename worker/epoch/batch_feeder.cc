#include "worker/epoch/batch_feeder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/epoch/step_gate.h"

namespace oarlock::worker {
namespace {

// Phases that train cache rows, if the job does.
std::vector<std::unique_ptr<RowCache>> NewCaches(const EpochContext& context) {
  std::vector<std::unique_ptr<RowCache>> caches;
  const v1::JobConfig& config = *context.config;
  if (config.row_cache_rows() == 0 || context.cuts == nullptr) return caches;
  for (const models::SparseInputSpec& input :
       context.model->spec().sparse_inputs) {
    // Statistics of the model, a few rows, are always needed as they are.
    auto& cache = caches.emplace_back();
    if (input.is_statistics()) continue;
    cache = std::make_unique<RowCache>(
        static_cast<size_t>(config.row_cache_rows()),
        static_cast<uint64_t>(config.row_cache_steps()));
  }
  return caches;
}

// Whether a slot of a batch with these offsets has several keys.
bool HasSeveralKeys(const std::vector<uint32_t>& offsets) {
  return std::adjacent_find(offsets.begin(), offsets.end(),
                            [](uint32_t begin, uint32_t end) {
                              return end - begin > 1;
                            }) != offsets.end();
}

}  // namespace

BatchFeeder::BatchFeeder(const EpochContext* context, size_t compute_thread,
                         size_t num_buffers, bool pull_ahead,
                         data::BadLines* bad_lines)
    : context_(context),
      compute_thread_(compute_thread),
      pull_ahead_(pull_ahead),
      reader_(context->NewReader(compute_thread,
                                 context->ranges[compute_thread], bad_lines)),
      caches_(pull_ahead ? NewCaches(*context)
                         : std::vector<std::unique_ptr<RowCache>>()),
      pulled_versions_(
          static_cast<uint64_t>(context->config->row_cache_steps())),
      free_(num_buffers),
      ready_(num_buffers) {
  for (size_t i = 0; i < num_buffers; ++i) {
    free_.Push(std::make_shared<StepBuffer>(&context->model->spec(),
                                            context->clock()));
  }
  thread_ = std::thread([this] { Run(); });
}

BatchFeeder::~BatchFeeder() {
  free_.Close();
  ready_.Close();
  thread_.join();
  // Rows that were asked for still come.
  while (auto buffer = ready_.Pop()) {
    if (pull_ahead_) (*buffer)->WaitForPull().IgnoreError();
  }
}

void BatchFeeder::Run() {
  absl::Status status = Feed();
  {
    absl::MutexLock lock(&mutex_);
    status_ = std::move(status);
  }
  ready_.Close();
}

absl::Status BatchFeeder::Feed() {
  for (;;) {
    std::optional<std::shared_ptr<StepBuffer>> buffer = free_.Pop();
    if (!buffer.has_value()) return absl::OkStatus();
    StepBuffer& step = **buffer;
    const absl::Time start = context_->clock().Now();
    OARLOCK_ASSIGN_OR_RETURN(
        const bool more,
        reader_->Next(context_->config->batch_size(), &step.batch));
    if (!more) return absl::OkStatus();
    if (context_->model->spec().one_key_per_slot &&
        HasSeveralKeys(step.batch.offsets)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a slot has several values, whose pairs --model ",
                       context_->config->model(),
                       " does not compute on a GPU; use --device cpu"));
    }
    step.SeedFor(context_->config->seed(), context_->phase.epoch);
    step.BuildKeys(context_->parameters->partition_bits());
    if (context_->PushesStatistics()) step.CountStatistics();
    context_->progress->AddTime(context_->phase, Stage::kRead,
                                context_->clock().Now() - start);
    if (context_->gate != nullptr) {
      OARLOCK_ASSIGN_OR_RETURN(step.step,
                               context_->gate->Begin(compute_thread_));
    }
    if (!caches_.empty()) {
      step.PlanRows(caches_, context_->parameters->partition_bits());
      for (const SparseInputBuffer& input : step.inputs) {
        if (input.cache_rows == 0) continue;
        context_->progress->AddRowCache(context_->phase,
                                        input.keys.keys().size(),
                                        input.missed_keys.keys().size());
      }
    }
    if (pull_ahead_) {
      step.StartPull(context_->parameters, context_->sparse_tables, *buffer);
    }
    if (!ready_.Push(*std::move(buffer))) return absl::OkStatus();
  }
}

std::shared_ptr<StepBuffer> BatchFeeder::Next() {
  return ready_.Pop().value_or(nullptr);
}

absl::Status BatchFeeder::WaitForPull(StepBuffer* step) {
  OARLOCK_RETURN_IF_ERROR(step->WaitForPull());
  // Staleness is told of the first input.
  SparseInputBuffer& first = step->inputs[0];
  if (first.cache_rows > 0) {
    pulled_versions_.Record(first.plan.step, first.plan.oldest_step,
                            &first.pulled_versions);
  }
  return absl::OkStatus();
}

void BatchFeeder::Recycle(std::shared_ptr<StepBuffer> buffer) {
  free_.Push(std::move(buffer));
}

absl::Status BatchFeeder::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

}  // namespace oarlock::worker
