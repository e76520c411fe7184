#include "pserver/fencing/ledger_records.h"

#include <algorithm>

#include "base/check.h"

namespace oarlock::pserver {

void LedgerRecords::Add(const PushMessageHeader& message, Outcome outcome) {
  const uint64_t sequence = message.sequence.value();
  OARLOCK_CHECK(sequence >= 1);
  if (sequence > highest_) {
    // The new sequences take the places of sequences that are fully applied by
    // now.
    const uint64_t num_new = std::min(sequence - highest_, kNumRecords);
    for (uint64_t i = 0; i < num_new; ++i) {
      MarkFullyApplied(&RecordOf(sequence - i));
    }
    highest_ = sequence;
  } else if (highest_ - sequence >= kNumRecords) {
    return;  // It came again: the client has been answered before.
  }
  Record& record = RecordOf(sequence);
  if (record.sequence == 0) {
    record.sequence = sequence;
    record.cut = message.cut;
    record.message_count = message.message_count;
    record.routing_generation = message.routing_generation;
    Copy(message.examples, &record.examples);
    Copy(message.dense_examples, &record.dense_examples);
  }
  if (outcome == Outcome::kPartial) return;
  const auto place = std::lower_bound(
      record.messages.begin(), record.messages.end(), message.message_index);
  if (place != record.messages.end() && *place == message.message_index) return;
  record.messages.insert(place, message.message_index);
}

void LedgerRecords::MarkFullyApplied(Record* record) {
  if (record->sequence == 0) return;
  Merge(record->examples, &fully_applied_);
  Merge(record->dense_examples, &fully_applied_dense_);
  record->sequence = 0;
  record->messages.clear();
}

void LedgerRecords::Describe(v1::WorkerLedger* ledger) const {
  ledger->set_highest(highest_);
  Copy(fully_applied_, ledger->mutable_fully_applied_examples());
  Copy(fully_applied_dense_, ledger->mutable_fully_applied_dense_examples());
  const uint64_t first =
      highest_ < kNumRecords ? 1 : highest_ - (kNumRecords - 1);
  for (uint64_t sequence = first; sequence <= highest_; ++sequence) {
    const Record& record = records_[sequence % kNumRecords];
    if (record.sequence == 0) continue;
    v1::PushRecord* push = ledger->add_pushes();
    push->set_sequence(sequence);
    push->set_cut(record.cut);
    Copy(record.examples, push->mutable_examples());
    Copy(record.dense_examples, push->mutable_dense_examples());
    push->set_message_count(record.message_count);
    push->set_routing_generation(record.routing_generation);
    push->mutable_messages()->Add(record.messages.begin(),
                                  record.messages.end());
  }
}

void LedgerRecords::Copy(const PushMessageHeader::Intervals& from,
                         std::vector<Interval>* to) {
  to->clear();
  for (const v1::ExampleInterval& interval : from) {
    to->push_back({.epoch = interval.epoch(),
                   .source = interval.source(),
                   .begin = interval.begin(),
                   .end = interval.end()});
  }
}

void LedgerRecords::Copy(const std::vector<Interval>& from,
                         PushMessageHeader::Intervals* to) {
  for (const Interval& interval : from) {
    v1::ExampleInterval* const copy = to->Add();
    copy->set_epoch(interval.epoch);
    copy->set_source(interval.source);
    copy->set_begin(interval.begin);
    copy->set_end(interval.end);
  }
}

void LedgerRecords::Copy(const Examples& from,
                         PushMessageHeader::Intervals* to) {
  for (const auto& [place, set] : from) {
    for (const IntervalSet::Interval& interval : set.intervals()) {
      v1::ExampleInterval* const copy = to->Add();
      copy->set_epoch(place.first);
      copy->set_source(place.second);
      copy->set_begin(interval.begin);
      copy->set_end(interval.end);
    }
  }
}

void LedgerRecords::Merge(const std::vector<Interval>& from, Examples* to) {
  for (const Interval& interval : from) {
    (*to)[{interval.epoch, interval.source}].Add(interval.begin, interval.end);
  }
}

}  // namespace oarlock::pserver
