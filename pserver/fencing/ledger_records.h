// Which of a worker's pushes one server has applied, in examples. When the
// worker is dead, this shows of which examples the gradients are here.

#ifndef OARLOCK_PSERVER_FENCING_LEDGER_RECORDS_H_
#define OARLOCK_PSERVER_FENCING_LEDGER_RECORDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "base/interval_set.h"
#include "base/push_window.h"
#include "base/types.h"
#include "proto/v1/coordinator_servers.pb.h"
#include "proto/v1/parameter.pb.h"

namespace oarlock::pserver {

// One message of a push, as its header describes it.
struct PushMessageHeader {
  using Intervals = google::protobuf::RepeatedPtrField<v1::ExampleInterval>;

  Sequence sequence;
  uint64_t cut = 0;
  uint32_t message_index = 0;
  uint32_t message_count = 0;
  uint64_t routing_generation = 0;
  Intervals examples;
  Intervals dense_examples;
};

// The pushes of one worker incarnation. Each of the newest 64 sequences has a
// record. Older pushes are applied on all servers by the client's rule
// (base/push_window.h), so only their examples are kept, as a set. Costs 6 KiB,
// the intervals of 64 pushes, and 48 bytes for each run of examples that the
// worker has had. Not thread-safe.
class LedgerRecords {
 public:
  // Sequences that have a record.
  static constexpr uint64_t kNumRecords = PushWindows::kWindowSequences;

  enum class Outcome {
    kApplied,
    // Some groups may have it, others not: the push is recorded without this
    // message.
    kPartial,
  };
  // Adding a message again changes nothing. Cut, examples and number of
  // messages are those of the first message of a push. REQUIRES: a sequence of
  // at least 1.
  void Add(const PushMessageHeader& message, Outcome outcome);

  // Fills in all of `ledger` but its worker.
  void Describe(v1::WorkerLedger* ledger) const;

 private:
  struct Interval {
    uint32_t epoch = 0;
    uint32_t source = 0;
    uint64_t begin = 0;
    uint64_t end = 0;  // exclusive
  };
  struct Record {
    // 0: this record is free.
    uint64_t sequence = 0;
    uint64_t cut = 0;
    uint32_t message_count = 0;
    uint64_t routing_generation = 0;
    std::vector<Interval> examples;
    std::vector<Interval> dense_examples;
    // Indices of the messages that are applied, ascending.
    std::vector<uint32_t> messages;
  };
  // By epoch and source.
  using Examples = absl::btree_map<std::pair<uint32_t, uint32_t>, IntervalSet>;

  static void Copy(const PushMessageHeader::Intervals& from,
                   std::vector<Interval>* to);
  static void Copy(const std::vector<Interval>& from,
                   PushMessageHeader::Intervals* to);
  static void Copy(const Examples& from, PushMessageHeader::Intervals* to);
  static void Merge(const std::vector<Interval>& from, Examples* to);

  Record& RecordOf(uint64_t sequence) {
    return records_[sequence % kNumRecords];
  }
  // Frees the record, whose push is fully applied.
  void MarkFullyApplied(Record* record);

  uint64_t highest_ = 0;
  // Those of highest_ - 63 ... highest_ that were added, each at its sequence
  // modulo 64. Free records keep their memory for the next push.
  std::array<Record, kNumRecords> records_;
  Examples fully_applied_;
  Examples fully_applied_dense_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_LEDGER_RECORDS_H_
