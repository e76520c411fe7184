// A session's pushes, and the marks that say which cut they belong before.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/finite.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "capi/session.h"
#include "proto/v1/coordinator_training.pb.h"

namespace oarlock::capi {
namespace {

constexpr char kCoordinator[] = "/oarlock.v1.CoordinatorService/";

// What is larger is not kept for another use: 64 MiB.
constexpr size_t kMaxKeptFloats = size_t{16} << 20;

// Floats that are looked at while they are in the first cache.
constexpr size_t kCopyBlock = 4096;

// Copies the values; whether all are finite.
bool CopyAndLook(const float* from, size_t size, float* to) {
  bool finite = true;
  for (size_t begin = 0; begin < size; begin += kCopyBlock) {
    const size_t count = std::min(kCopyBlock, size - begin);
    std::copy(from + begin, from + begin + count, to + begin);
    finite = finite && AllFinite(to + begin, count);
  }
  return finite;
}

absl::Status PushedBefore() {
  return absl::FailedPreconditionError(
      "the step was pushed before; begin another one");
}

absl::Status TwiceInStep(const std::string& table) {
  return absl::InvalidArgumentError(
      absl::StrCat(table,
                   " takes part in this step already; a step has one push for "
                   "each table: merge the gradients"));
}

}  // namespace

std::shared_ptr<Floats> Session::TakeBuffer(size_t num_floats) {
  std::shared_ptr<Floats> buffer = buffers_.Take(
      [](const Floats& used) { return used.size() <= kMaxKeptFloats; });
  if (buffer->size() < num_floats) buffer->resize(num_floats);
  return buffer;
}

absl::Status Session::AddSparse(const SparseStep& sparse, Step* step) {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config,
                           SparseTableOf(sparse.table));
  const size_t num_keys = sparse.keys->keys().size();
  const size_t wanted = num_keys * config->sparse().dim();
  if (sparse.num_gradients != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradients for ", DescribeTable(*config), " have ",
        sparse.num_gradients, " floats; ", num_keys, " distinct keys of ",
        config->sparse().dim(), " floats make ", wanted));
  }
  const size_t num_floats = wanted + (sparse.shows == nullptr ? 0 : num_keys) +
                            (sparse.clicks == nullptr ? 0 : num_keys);
  std::shared_ptr<Floats> buffer = TakeBuffer(num_floats);
  float* next = buffer->data();
  client::SparseGradients gradients;
  gradients.known_finite = true;
  const auto copy = [&](const float* from, size_t size) -> const float* {
    if (from == nullptr) return nullptr;
    float* const to = next;
    if (!CopyAndLook(from, size, to)) gradients.known_finite = false;
    next += size;
    return to;
  };
  gradients.table = sparse.table;
  gradients.keys = sparse.keys.get();
  gradients.gradients = copy(sparse.gradients, wanted);
  gradients.shows = copy(sparse.shows, num_keys);
  gradients.clicks = copy(sparse.clicks, num_keys);
  absl::MutexLock lock(&step->mutex_);
  if (step->memory_ == nullptr) return PushedBefore();
  for (const client::SparseGradients& other : step->push_.sparse) {
    if (other.table == sparse.table) return TwiceInStep(DescribeTable(*config));
  }
  step->memory_->keys.push_back(sparse.keys);
  step->memory_->buffers.push_back(std::move(buffer));
  step->push_.sparse.push_back(gradients);
  return absl::OkStatus();
}

absl::Status Session::AddDense(const DenseStep& dense, Step* step) {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config,
                           DenseTableOf(dense.table));
  if (dense.num_gradients != config->dense().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradients for ", DescribeTable(*config), " have ", dense.num_gradients,
        " floats; the table has ", config->dense().size()));
  }
  std::shared_ptr<Floats> buffer = TakeBuffer(dense.num_gradients);
  client::DenseGradients gradients;
  gradients.known_finite =
      CopyAndLook(dense.gradients, dense.num_gradients, buffer->data());
  gradients.table = dense.table;
  gradients.gradients = buffer->data();
  absl::MutexLock lock(&step->mutex_);
  if (step->memory_ == nullptr) return PushedBefore();
  for (const client::DenseGradients& other : step->push_.dense) {
    if (other.table == dense.table) return TwiceInStep(DescribeTable(*config));
  }
  step->memory_->buffers.push_back(std::move(buffer));
  step->push_.dense.push_back(gradients);
  return absl::OkStatus();
}

absl::Status Session::Push(Step* step, OperationPtr operation) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  OARLOCK_RETURN_IF_ERROR(Alive());
  std::shared_ptr<Step::Memory> memory;
  client::PushRequest push;
  {
    absl::MutexLock lock(&step->mutex_);
    if (step->memory_ == nullptr) return PushedBefore();
    memory = std::exchange(step->memory_, nullptr);
    push = std::move(step->push_);
  }
  const uint64_t lease = step->lease();
  Part part;
  if (lease != 0) {
    absl::MutexLock lock(&mutex_);
    std::optional<Part> leased = leases_.Take(lease);
    if (!leased.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("part ", lease,
                       " is not leased to this worker, or was pushed before; "
                       "each part takes one step"));
    }
    part = *std::move(leased);
    push.examples = part.examples;
    push.dense_examples = part.dense_examples;
    push.epoch = part.epoch;
    push.completes = part.completes;
    // Of a dead worker's push one kind may be complete.
    if (part.examples.empty()) push.sparse.clear();
    if (part.dense_examples.empty()) push.dense.clear();
  }
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (lease == 0) OARLOCK_RETURN_IF_ERROR(CheckGoesOnWith(""));
    OARLOCK_RETURN_IF_ERROR(AddRest(&push));
    ++pushes_under_way_;
    number = marks_.Begin(
        part.phase_name,
        part.repairs ? std::vector<data::ExampleRange>() : part.examples,
        push.round);
    if (push.round == 0) push.cut = number;
  }
  parameters_->Push(
      push, /*versions=*/nullptr, std::move(memory),
      [this, part, lease, number, operation](const absl::Status& status) {
        OnPushDone(part, lease, number, status);
        End(operation, status);
      });
  // It is sent: whoever cancels it only stops waiting for it.
  operation->SetCancel([operation = operation.get()] {
    operation->Finish(absl::CancelledError(
        "the wait for a push was cancelled; the push goes on"));
  });
  return absl::OkStatus();
}

absl::Status Session::AddRest(client::PushRequest* push) {
  bool sync = false;
  for (const auto& [id, config] : tables_) {
    sync = sync || config->mode() == v1::SYNC;
  }
  if (!sync) return absl::OkStatus();
  if (!in_rounds_) {
    return absl::FailedPreconditionError(
        "the job's tables are of sync mode, and this worker takes no part in "
        "rounds; join them first");
  }
  static const auto* const no_keys = new client::KeyBatch;
  for (const auto& [id, config] : tables_) {
    const TableId table = id;
    const auto is_of = [table](const auto& gradients) {
      return gradients.table == table;
    };
    if (config->has_sparse() &&
        std::none_of(push->sparse.begin(), push->sparse.end(), is_of)) {
      push->sparse.push_back({.table = table, .keys = no_keys});
    } else if (config->has_dense() &&
               std::none_of(push->dense.begin(), push->dense.end(), is_of)) {
      push->dense.push_back({.table = table});
    }
  }
  push->round = ++last_round_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Session::SetRounds(bool joins) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  absl::StatusOr<uint64_t> complete = 0;
  if (joins) {
    complete = job_->JoinRounds();
  } else {
    OARLOCK_RETURN_IF_ERROR(job_->LeaveRounds());
  }
  OARLOCK_RETURN_IF_ERROR(complete.status());
  {
    absl::MutexLock lock(&mutex_);
    in_rounds_ = joins;
    if (joins) {
      last_round_ = *complete;
      marks_.JoinedRounds(*complete);
    } else {
      marks_.LeftRounds();
    }
  }
  MarkIfDue();
  return absl::StrCat("{\"complete\": ", *complete, "}");
}

void Session::OnPushDone(const Part& part, uint64_t lease, uint64_t number,
                         const absl::Status& status) {
  if (status.ok() && lease != 0) {
    uint64_t examples = 0;
    for (const data::ExampleRange& range : part.examples) {
      examples += range.end - range.begin;
    }
    progress_.AddStep(part.work, examples);
  }
  {
    absl::MutexLock lock(&mutex_);
    if (status.ok() && lease != 0) leases_.SetDone(part.phase_name, lease);
    marks_.End(number, status.ok());
    // Who leaves waits for this, and reports what was done by then.
    --pushes_under_way_;
  }
  MarkIfDue();
}

void Session::MarkIfDue() {
  if (job_ == nullptr || !job_->takes_cuts()) return;
  std::optional<StepMarks::Mark> due;
  {
    absl::MutexLock lock(&mutex_);
    due = marks_.TakeDue();
  }
  if (!due.has_value()) return;
  control_->Start<v1::MarkCutResponse>(
      ServerIndex(0), absl::StrCat(kCoordinator, "MarkCut"), ToRequest(*due),
      [this, mark = *due](const absl::StatusOr<v1::MarkCutResponse>& response) {
        if (!response.ok()) {
          Log().warn("cut {} was not marked: {}", mark.cut,
                     std::string(response.status().message()));
        }
        {
          absl::MutexLock lock(&mutex_);
          marks_.EndMark(mark, response.ok());
        }
        MarkIfDue();
      });
}

v1::MarkCutRequest Session::ToRequest(const StepMarks::Mark& mark) const {
  v1::MarkCutRequest request;
  request.set_worker_index(worker_index());
  request.set_worker_generation(worker_generation());
  request.set_cut(mark.cut);
  for (const v1::TrainedExamples& trained : mark.ToProto()) {
    *request.add_trained() = trained;
  }
  return request;
}

}  // namespace oarlock::capi
