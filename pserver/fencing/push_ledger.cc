#include "pserver/fencing/push_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::pserver {
namespace {

// The incarnation whose push this is, whoever sends it.
WorkerIndex WorkerOf(const v1::RequestHeader& header) {
  return WorkerIndex(header.worker_index());
}
Generation GenerationOf(const v1::RequestHeader& header) {
  return Generation(header.worker_generation());
}

}  // namespace

void PushLedger::Message::EndUnderWay(
    std::optional<LedgerRecords::Outcome> outcome) {
  WorkerEntry* const entry = std::exchange(entry_, nullptr);
  absl::MutexLock lock(&entry->mutex);
  if (completes_) {
    --incarnation_->num_completions;
  } else {
    --incarnation_->num_pushes;
    if (outcome.has_value()) {
      if (incarnation_->records == nullptr) {
        incarnation_->records = std::make_unique<LedgerRecords>();
      }
      incarnation_->records->Add(header_, *outcome);
    }
  }
  if (!incarnation_->idle() || incarnation_->records != nullptr) return;
  // Its pushes were refused, or it is one that others complete: nothing to
  // keep.
  std::erase_if(entry->incarnations, [&](const auto& incarnation) {
    return incarnation.get() == incarnation_;
  });
}

PushLedger::PushLedger(const WorkerFences* fences)
    : fences_(fences), workers_(new WorkerEntry[fences->num_workers()]) {}

PushLedger::~PushLedger() = default;

absl::Status PushLedger::Admit(v1::RequestHeader* header, Message* message) {
  if (header->completing_generation() != 0) {
    return AdmitCompletion(header, message);
  }
  const WorkerIndex worker = WorkerOf(*header);
  const Generation generation = GenerationOf(*header);
  if (header->round() == 0 && Knows(worker, generation)) {
    OARLOCK_RETURN_IF_ERROR(Begin(header, message));
  }
  const absl::Status status = fences_->CheckPush(worker, generation);
  if (!status.ok()) message->Drop();
  return status;
}

absl::Status PushLedger::AdmitCompletion(v1::RequestHeader* header,
                                         Message* message) {
  OARLOCK_RETURN_IF_ERROR(
      fences_->CheckPush(WorkerIndex(header->completing_worker()),
                         Generation(header->completing_generation())));
  const WorkerIndex worker = WorkerOf(*header);
  const Generation generation = GenerationOf(*header);
  if (!Knows(worker, generation)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", header->completing_worker(), " completes a push of worker ",
        worker.value(), " generation ", generation.value(),
        "; legal are workers 0 to ", fences_->num_workers() - 1,
        " with a generation of at least 1; push what was leased"));
  }
  if (!fences_->IsFenced(worker, generation)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", header->completing_worker(), " completes push ",
        header->sequence(), " of worker ", worker.value(), " generation ",
        generation.value(),
        ", which may still push here; legal are incarnations that are fenced; "
        "complete only what the coordinator has leased"));
  }
  return Begin(header, message);
}

void PushLedger::Readmit(v1::RequestHeader* header, Message* message) {
  if (header->completing_generation() != 0 || header->round() != 0 ||
      !Knows(WorkerOf(*header), GenerationOf(*header))) {
    return;
  }
  // Nothing is forgotten while a log is replayed.
  OARLOCK_CHECK(Begin(header, message).ok());
}

absl::Status PushLedger::Begin(v1::RequestHeader* header, Message* message) {
  OARLOCK_CHECK(message->entry_ == nullptr);
  const Generation generation = GenerationOf(*header);
  message->completes_ = header->completing_generation() != 0;
  PushMessageHeader& kept = message->header_;
  kept.sequence = Sequence(header->sequence());
  kept.cut = header->cut();
  kept.message_index = header->message_index();
  kept.message_count = header->message_count();
  kept.routing_generation = header->routing_generation();
  kept.examples.Swap(header->mutable_examples());
  kept.dense_examples.Swap(header->mutable_dense_examples());

  WorkerEntry& entry = workers_[header->worker_index()];
  absl::MutexLock lock(&entry.mutex);
  if (generation <= entry.forgotten) {
    return absl::AbortedError(absl::StrCat(
        "worker ", header->worker_index(), " generation ", generation.value(),
        " is accounted for: nobody completes its pushes any more (push ",
        header->sequence(), "); drop it and take new leases"));
  }
  // From the end: the newest is nearly always meant.
  auto place = entry.incarnations.end();
  while (place != entry.incarnations.begin() &&
         (*std::prev(place))->generation >= generation) {
    --place;
  }
  if (place == entry.incarnations.end() || (*place)->generation != generation) {
    place = entry.incarnations.insert(place, std::make_unique<Incarnation>());
    (*place)->generation = generation;
  }
  Incarnation& incarnation = **place;
  ++(message->completes_ ? incarnation.num_completions
                         : incarnation.num_pushes);
  message->incarnation_ = &incarnation;
  message->entry_ = &entry;
  return absl::OkStatus();
}

std::optional<v1::WorkerLedger> PushLedger::Collect(
    WorkerIndex worker, Generation generation) const {
  if (!Knows(worker, generation) || !fences_->IsFenced(worker, generation)) {
    return std::nullopt;
  }
  v1::WorkerLedger ledger;
  ledger.mutable_worker()->set_worker_index(worker.value());
  ledger.mutable_worker()->set_worker_generation(generation.value());
  const WorkerEntry& entry = workers_[worker.value()];
  absl::MutexLock lock(&entry.mutex);
  if (generation <= entry.forgotten) return std::nullopt;
  for (const std::unique_ptr<Incarnation>& incarnation : entry.incarnations) {
    if (incarnation->generation != generation) continue;
    if (incarnation->num_pushes > 0) return std::nullopt;
    if (incarnation->records != nullptr) {
      incarnation->records->Describe(&ledger);
    }
  }
  return ledger;
}

bool PushLedger::Forget(WorkerIndex worker, Generation last) {
  if (worker.value() >= fences_->num_workers()) return true;
  WorkerEntry& entry = workers_[worker.value()];
  absl::MutexLock lock(&entry.mutex);
  entry.forgotten = std::max(entry.forgotten, last);
  std::erase_if(entry.incarnations, [&](const auto& incarnation) {
    return incarnation->generation <= last && incarnation->idle();
  });
  return entry.incarnations.empty() ||
         entry.incarnations.front()->generation > last;
}

}  // namespace oarlock::pserver
