#include "pserver/fencing/worker_fences.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace oarlock::pserver {
namespace {

// Raises `value` to at least `floor`; returns its new value.
uint64_t Raise(std::atomic<uint64_t>& value, uint64_t floor) {
  uint64_t seen = value.load();
  while (seen < floor && !value.compare_exchange_weak(seen, floor)) {
  }
  return seen < floor ? floor : seen;
}

absl::string_view HowItEnded(int life) {
  switch (life) {
    case v1::WorkerState::LOST:
      return "was taken for dead when its lease ran out";
    case v1::WorkerState::FAILED:
      return "has given up";
    case v1::WorkerState::FINISHED:
      return "has finished";
    default:
      return "is closed";
  }
}

}  // namespace

WorkerFences::WorkerFences(uint32_t num_workers, Start start)
    : num_workers_(num_workers),
      workers_(new WorkerFence[num_workers]),
      believes_pushes_(start == Start::kOpen),
      open_(believes_pushes_) {}

absl::Status WorkerFences::CheckPush(WorkerIndex worker,
                                     Generation generation) const {
  if (worker.value() >= num_workers_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "push of worker ", worker.value(), ", but the job has ", num_workers_,
        " workers, numbered from 0; check the worker's index"));
  }
  if (generation.value() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "push of worker ", worker.value(),
        " without a generation: readers only pull; register first"));
  }
  if (!open_.load()) {
    return absl::UnavailableError(
        "this server has not heard from the coordinator yet who may push; "
        "call again");
  }
  WorkerFence& fence = workers_[worker.value()];
  const uint64_t newest = believes_pushes_
                              ? Raise(fence.newest, generation.value())
                              : fence.newest.load();
  if (generation.value() > newest) {
    unknown_observer_();
    return absl::UnavailableError(absl::StrCat(
        "this server has not heard from the coordinator yet of worker ",
        worker.value(), " generation ", generation.value(), "; call again"));
  }
  if (generation.value() < newest) {
    return absl::AbortedError(absl::StrCat(
        "worker ", worker.value(), " generation ", generation.value(),
        " was fenced by generation ", newest, "; register anew"));
  }
  if (generation.value() <= fence.closed.load()) {
    return absl::AbortedError(absl::StrCat(
        "worker ", worker.value(), " generation ", generation.value(), " ",
        HowItEnded(fence.closed_life.load()), "; register anew"));
  }
  return absl::OkStatus();
}

bool WorkerFences::IsFenced(WorkerIndex worker, Generation generation) const {
  if (worker.value() >= num_workers_ || generation.value() == 0) return false;
  const WorkerFence& fence = workers_[worker.value()];
  return generation.value() < fence.newest.load() ||
         generation.value() <= fence.closed.load();
}

void WorkerFences::Update(
    const google::protobuf::RepeatedPtrField<v1::WorkerState>& states) {
  for (const v1::WorkerState& state : states) {
    if (state.worker_index() >= num_workers_) continue;
    WorkerFence& fence = workers_[state.worker_index()];
    Raise(fence.newest, state.worker_generation());
    if (state.life() != v1::WorkerState::ALIVE &&
        state.worker_generation() > fence.closed.load()) {
      fence.closed_life.store(state.life());
      Raise(fence.closed, state.worker_generation());
    }
  }
  open_.store(true);
}

}  // namespace oarlock::pserver
