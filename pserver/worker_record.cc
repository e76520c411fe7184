#include "pserver/worker_record.h"

#include "absl/strings/str_cat.h"
#include "pserver/recorded_time.h"

namespace oarlock {

std::string WorkerRecord::Name() const {
  return absl::StrCat("worker ", state.worker_index(), " (host ", state.host(),
                      ", process ", state.pid(), ")");
}

void WorkerRecord::Save(v1::WorkerRecordState* saved) const {
  *saved->mutable_state() = state;
  saved->set_lease_end_unix_ns(ToRecorded(lease_end));
  saved->set_lost_at_unix_ns(ToRecorded(lost_at));
  saved->set_last_report(last_report);
  saved->set_had_examples(had_examples);
}

void WorkerRecord::Load(const v1::WorkerRecordState& saved) {
  state = saved.state();
  lease_end = FromRecorded(saved.lease_end_unix_ns());
  lost_at = FromRecorded(saved.lost_at_unix_ns());
  last_report = saved.last_report();
  had_examples = saved.had_examples();
}

}  // namespace oarlock
