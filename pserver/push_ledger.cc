#include "pserver/push_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock {
namespace {

// The incarnation whose push this is, whoever sends it.
WorkerIndex WorkerOf(const v1::RequestHeader& header) {
  return WorkerIndex(header.worker_index());
}
Generation GenerationOf(const v1::RequestHeader& header) {
  return Generation(header.worker_generation());
}

}  // namespace

PushLedger::Message& PushLedger::Message::operator=(Message&& other) {
  End({});
  slot_ = std::exchange(other.slot_, nullptr);
  incarnation_ = std::exchange(other.incarnation_, nullptr);
  completes_ = other.completes_;
  part_ = std::move(other.part_);
  return *this;
}

void PushLedger::Message::End(std::optional<PushHistory::Outcome> outcome) {
  Slot* const slot = std::exchange(slot_, nullptr);
  if (slot == nullptr) return;
  absl::MutexLock lock(&slot->mutex);
  if (completes_) {
    --incarnation_->num_completions;
  } else {
    --incarnation_->num_pushes;
    if (outcome.has_value()) {
      if (incarnation_->history == nullptr) {
        incarnation_->history = std::make_unique<PushHistory>();
      }
      incarnation_->history->Add(part_, *outcome);
    }
  }
  if (!incarnation_->idle() || incarnation_->history != nullptr) return;
  // Its pushes were refused, or it is one that others complete: nothing to
  // keep.
  std::erase_if(slot->incarnations, [&](const auto& incarnation) {
    return incarnation.get() == incarnation_;
  });
}

PushLedger::PushLedger(const Membership* membership)
    : membership_(membership), slots_(new Slot[membership->num_workers()]) {}

PushLedger::~PushLedger() = default;

absl::StatusOr<PushLedger::Message> PushLedger::Admit(
    v1::RequestHeader* header) {
  if (header->completing_generation() != 0) return AdmitCompletion(header);
  const WorkerIndex worker = WorkerOf(*header);
  const Generation generation = GenerationOf(*header);
  Message message;
  if (header->round() == 0 && Knows(worker, generation)) {
    OARLOCK_ASSIGN_OR_RETURN(message, Begin(header));
  }
  OARLOCK_RETURN_IF_ERROR(membership_->CheckPush(worker, generation));
  return message;
}

absl::StatusOr<PushLedger::Message> PushLedger::AdmitCompletion(
    v1::RequestHeader* header) {
  OARLOCK_RETURN_IF_ERROR(membership_->CheckPush(
      WorkerIndex(header->completing_worker()),
      Generation(header->completing_generation())));
  const WorkerIndex worker = WorkerOf(*header);
  const Generation generation = GenerationOf(*header);
  if (!Knows(worker, generation)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", header->completing_worker(), " completes a push of worker ",
        worker.value(), " generation ", generation.value(),
        "; legal are workers 0 to ", membership_->num_workers() - 1,
        " with a generation of at least 1; push what was leased"));
  }
  if (!membership_->IsFenced(worker, generation)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", header->completing_worker(), " completes push ",
        header->sequence(), " of worker ", worker.value(), " generation ",
        generation.value(),
        ", which may still push here; legal are incarnations that are fenced; "
        "complete only what the coordinator has leased"));
  }
  return Begin(header);
}

PushLedger::Message PushLedger::Readmit(v1::RequestHeader* header) {
  if (header->completing_generation() != 0 || header->round() != 0 ||
      !Knows(WorkerOf(*header), GenerationOf(*header))) {
    return Message();
  }
  absl::StatusOr<Message> message = Begin(header);
  return message.ok() ? *std::move(message) : Message();
}

absl::StatusOr<PushLedger::Message> PushLedger::Begin(
    v1::RequestHeader* header) {
  const Generation generation = GenerationOf(*header);
  Message message;
  message.completes_ = header->completing_generation() != 0;
  message.part_.sequence = Sequence(header->sequence());
  message.part_.cut = header->cut();
  message.part_.part_index = header->part_index();
  message.part_.part_count = header->part_count();
  message.part_.examples.Swap(header->mutable_examples());
  message.part_.dense_examples.Swap(header->mutable_dense_examples());

  Slot& slot = slots_[header->worker_index()];
  absl::MutexLock lock(&slot.mutex);
  if (generation <= slot.retired) {
    return absl::AbortedError(absl::StrCat(
        "worker ", header->worker_index(), " generation ", generation.value(),
        " is accounted for: nobody completes its pushes any more (push ",
        header->sequence(), "); drop it and take new leases"));
  }
  // From the end: the newest is nearly always meant.
  auto place = slot.incarnations.end();
  while (place != slot.incarnations.begin() &&
         (*std::prev(place))->generation >= generation) {
    --place;
  }
  if (place == slot.incarnations.end() || (*place)->generation != generation) {
    place = slot.incarnations.insert(place, std::make_unique<Incarnation>());
    (*place)->generation = generation;
  }
  message.slot_ = &slot;
  message.incarnation_ = place->get();
  ++(message.completes_ ? message.incarnation_->num_completions
                        : message.incarnation_->num_pushes);
  return message;
}

std::optional<v1::WorkerLedger> PushLedger::Collect(
    WorkerIndex worker, Generation generation) const {
  if (!Knows(worker, generation) ||
      !membership_->IsFenced(worker, generation)) {
    return std::nullopt;
  }
  v1::WorkerLedger ledger;
  ledger.mutable_worker()->set_worker_index(worker.value());
  ledger.mutable_worker()->set_worker_generation(generation.value());
  const Slot& slot = slots_[worker.value()];
  absl::MutexLock lock(&slot.mutex);
  if (generation <= slot.retired) return std::nullopt;
  for (const std::unique_ptr<Incarnation>& incarnation : slot.incarnations) {
    if (incarnation->generation != generation) continue;
    if (incarnation->num_pushes > 0) return std::nullopt;
    if (incarnation->history != nullptr) {
      incarnation->history->Describe(&ledger);
    }
  }
  return ledger;
}

bool PushLedger::Retire(WorkerIndex worker, Generation last) {
  if (worker.value() >= membership_->num_workers()) return true;
  Slot& slot = slots_[worker.value()];
  absl::MutexLock lock(&slot.mutex);
  slot.retired = std::max(slot.retired, last);
  std::erase_if(slot.incarnations, [&](const auto& incarnation) {
    return incarnation->generation <= last && incarnation->idle();
  });
  return slot.incarnations.empty() ||
         slot.incarnations.front()->generation > last;
}

}  // namespace oarlock
