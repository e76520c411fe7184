#include "coordinator/worker_record.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "coordinator/recorded_time.h"

namespace oarlock::coordinator {
namespace {

// Registrations of a worker whose repetitions are known. They come seconds
// late, and a worker registers once in a life.
constexpr size_t kRememberedRegistrations = 16;

}  // namespace

std::string WorkerRecord::Name() const {
  return absl::StrCat("worker ", state.worker_index(), " (host ", state.host(),
                      ", process ", state.pid(), ")");
}

bool WorkerRecord::HasHeard(const v1::RegisterWorkerRequest& request) const {
  return request.registration_id() != 0 &&
         std::find(registrations.begin(), registrations.end(),
                   request.registration_id()) != registrations.end();
}

void WorkerRecord::RecordRegistration(
    const v1::RegisterWorkerRequest& request,
    const v1::RegisterWorkerResponse& response) {
  if (registrations.size() >= kRememberedRegistrations) {
    registrations.pop_front();
  }
  registrations.push_back(request.registration_id());
  registered_response = response;
}

void WorkerRecord::Save(v1::WorkerRecordState* saved) const {
  *saved->mutable_state() = state;
  saved->set_lease_end_unix_ns(ToRecorded(lease_end));
  saved->set_lost_at_unix_ns(ToRecorded(lost_at));
  saved->set_last_report(last_report);
  saved->set_had_examples(had_examples);
  saved->mutable_registration_ids()->Add(registrations.begin(),
                                         registrations.end());
  *saved->mutable_registered() = registered_response;
  saved->set_trained_epochs(trained_epochs);
}

void WorkerRecord::Load(const v1::WorkerRecordState& saved) {
  state = saved.state();
  lease_end = FromRecorded(saved.lease_end_unix_ns());
  lost_at = FromRecorded(saved.lost_at_unix_ns());
  last_report = saved.last_report();
  had_examples = saved.had_examples();
  registrations.assign(saved.registration_ids().begin(),
                       saved.registration_ids().end());
  registered_response = saved.registered();
  trained_epochs = saved.trained_epochs();
}

}  // namespace oarlock::coordinator
