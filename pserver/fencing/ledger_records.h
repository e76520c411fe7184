// Which of a worker's pushes one server has applied, in examples: what tells,
// when the worker is dead, whose gradients are where.

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

// One message of a push, as its header tells of it.
struct PushPart {
  using Intervals = google::protobuf::RepeatedPtrField<v1::ExampleInterval>;

  Sequence sequence;
  uint64_t cut = 0;
  uint32_t part_index = 0;
  uint32_t part_count = 0;
  Intervals examples;
  Intervals dense_examples;
};

// The pushes of one worker incarnation. The newest 64 sequences have a record
// each; what lies below is applied on all servers by the client's rule
// (base/push_window.h), so only its examples are kept, as a set. Costs
// 6 KiB, the intervals of 64 pushes, and 48 bytes for each run of examples that
// the worker has had. Not thread-safe.
class LedgerRecords {
 public:
  // Sequences that have a record.
  static constexpr uint64_t kNumRecords = PushWindows::kWindowSequences;

  enum class Outcome {
    kApplied,
    // Some groups may have it, others not: the push is remembered without this
    // part.
    kPartial,
  };
  // Adding a part again changes nothing. Of several parts of a push the first
  // one tells cut, examples and number of parts.
  // REQUIRES: a sequence of at least 1.
  void Add(const PushPart& part, Outcome outcome);

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
    // 0: this one is free.
    uint64_t sequence = 0;
    uint64_t cut = 0;
    uint32_t part_count = 0;
    std::vector<Interval> examples;
    std::vector<Interval> dense_examples;
    // Indices of the parts that are applied, ascending.
    std::vector<uint32_t> parts;
  };
  // By epoch and source.
  using Examples = absl::btree_map<std::pair<uint32_t, uint32_t>, IntervalSet>;

  static void Copy(const PushPart::Intervals& from, std::vector<Interval>* to);
  static void Copy(const std::vector<Interval>& from, PushPart::Intervals* to);
  static void Copy(const Examples& from, PushPart::Intervals* to);
  static void Merge(const std::vector<Interval>& from, Examples* to);

  Record& RecordOf(uint64_t sequence) {
    return records_[sequence % kNumRecords];
  }
  // Frees the record, whose push is settled.
  void Settle(Record* record);

  uint64_t highest_ = 0;
  // Those of highest_ - 63 ... highest_ that were added, each at its sequence
  // modulo 64. Freed ones keep their memory for the next push.
  std::array<Record, kNumRecords> records_;
  Examples settled_;
  Examples settled_dense_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_LEDGER_RECORDS_H_
