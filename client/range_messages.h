// Ranges as the wire carries them.

#ifndef OARLOCK_CLIENT_RANGE_MESSAGES_H_
#define OARLOCK_CLIENT_RANGE_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/job_client.h"
#include "data/range_source.h"
#include "proto/v1/coordinator_ranges.pb.h"

namespace oarlock::client {

inline v1::DefinePhaseRequest ToDefinePhaseRequest(
    const std::string& phase_name, const std::vector<data::DataRange>& items,
    uint64_t num_examples, const std::string& order) {
  v1::DefinePhaseRequest request;
  request.set_phase_name(phase_name);
  request.set_num_examples(num_examples);
  request.set_data_order(order);
  for (const data::DataRange& item : items) {
    v1::DataRange* range = request.add_ranges();
    range->set_source(item.source);
    range->set_begin(item.begin);
    range->set_end(item.end);
    range->set_byte_offset(item.byte_offset);
    range->set_skip_lines(item.skip_lines);
  }
  return request;
}

inline data::DataRange ToDataRange(const v1::DataRange& range) {
  data::DataRange item;
  item.source = range.source();
  item.begin = range.begin();
  item.end = range.end();
  item.byte_offset = range.byte_offset();
  item.skip_lines = range.skip_lines();
  return item;
}

inline PushCompletion ToPushCompletion(const v1::PushCompletion& completion) {
  PushCompletion to;
  to.lease = completion.lease();
  if (completion.worker().worker_generation() != 0) {
    to.push = PushStamp{WorkerIndex(completion.worker().worker_index()),
                        Generation(completion.worker().worker_generation()),
                        Sequence(completion.sequence())};
  }
  for (const v1::DataRange& range : completion.examples()) {
    to.examples.push_back(ToDataRange(range));
  }
  for (const v1::DataRange& range : completion.dense_examples()) {
    to.dense_examples.push_back(ToDataRange(range));
  }
  return to;
}

// REQUIRES: the response has as many leases as ranges.
inline Leases ToLeases(const v1::LeaseRangesResponse& response) {
  Leases leases;
  leases.exhausted = response.exhausted();
  for (int i = 0; i < response.ranges_size(); ++i) {
    data::DataRange item = ToDataRange(response.ranges(i));
    item.lease = response.leases(i);
    leases.items.push_back(item);
  }
  for (const v1::PushCompletion& completion : response.push_completions()) {
    leases.push_completions.push_back(ToPushCompletion(completion));
  }
  return leases;
}

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_RANGE_MESSAGES_H_
