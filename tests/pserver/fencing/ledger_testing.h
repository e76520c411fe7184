// Messages of pushes and sets of examples, for the tests of ledgers.

#ifndef OARLOCK_TESTS_PSERVER_FENCING_LEDGER_TESTING_H_
#define OARLOCK_TESTS_PSERVER_FENCING_LEDGER_TESTING_H_

#include <cstdint>
#include <set>
#include <tuple>

#include "proto/v1/coordinator_workers.pb.h"
#include "proto/v1/parameter.pb.h"
#include "pserver/fencing/ledger_records.h"

namespace oarlock::pserver {

struct Source {
  uint32_t epoch = 0;
  uint32_t source = 0;
};

inline v1::ExampleInterval IntervalOf(const Source& source, uint64_t begin,
                                      uint64_t end) {
  v1::ExampleInterval interval;
  interval.set_epoch(source.epoch);
  interval.set_source(source.source);
  interval.set_begin(begin);
  interval.set_end(end);
  return interval;
}

struct MessageName {
  uint64_t sequence = 1;
  uint32_t message_index = 0;
  uint32_t message_count = 1;
};

// Without examples.
inline PushMessageHeader MessageHeaderOf(const MessageName& name) {
  PushMessageHeader header;
  header.sequence = Sequence(name.sequence);
  header.message_index = name.message_index;
  header.message_count = name.message_count;
  return header;
}

// Every example by itself: epoch, source, number.
using ExampleSet = std::set<std::tuple<uint32_t, uint32_t, uint64_t>>;

inline void AddExamples(const PushMessageHeader::Intervals& intervals,
                        ExampleSet* set) {
  for (const v1::ExampleInterval& interval : intervals) {
    for (uint64_t i = interval.begin(); i < interval.end(); ++i) {
      set->emplace(interval.epoch(), interval.source(), i);
    }
  }
}

inline ExampleSet ExamplesOf(const PushMessageHeader::Intervals& intervals) {
  ExampleSet set;
  AddExamples(intervals, &set);
  return set;
}

inline google::protobuf::RepeatedPtrField<v1::WorkerState> StateOf(
    uint32_t worker, uint64_t generation, v1::WorkerState::Life life) {
  google::protobuf::RepeatedPtrField<v1::WorkerState> states;
  v1::WorkerState* state = states.Add();
  state->set_worker_index(worker);
  state->set_worker_generation(generation);
  state->set_life(life);
  return states;
}

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_FENCING_LEDGER_TESTING_H_
