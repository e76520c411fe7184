#include "tests/coordinator/coordinator_calls.h"

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/auc.h"

namespace oarlock::coordinator {
namespace {

template <typename Response>
std::string Text(const absl::StatusOr<Response>& response) {
  return response.ok() ? response->SerializeAsString()
                       : response.status().ToString();
}

}  // namespace

std::string Apply(const v1::CoordinatorCall& call, Coordinator* to) {
  switch (call.call_case()) {
    case v1::CoordinatorCall::kRegisterWorker:
      return Text(to->RegisterWorker(call.register_worker()));
    case v1::CoordinatorCall::kHeartbeat:
      return Text(to->Heartbeat(call.heartbeat()));
    case v1::CoordinatorCall::kFinishWorker:
      return to->FinishWorker(call.finish_worker()).ToString();
    case v1::CoordinatorCall::kServerHeartbeat:
      return Text(to->ServerHeartbeat(call.server_heartbeat()));
    case v1::CoordinatorCall::kDefinePhase:
      return Text(to->DefinePhase(call.define_phase()));
    case v1::CoordinatorCall::kLeaseRanges:
      return Text(to->LeaseRanges(call.lease_ranges()));
    case v1::CoordinatorCall::kBarrier: {
      // One that waits is asked again by whoever waits.
      auto response = std::make_shared<std::string>();
      to->Barrier(call.barrier(), [response](const absl::Status& status) {
        *response = status.ToString();
      });
      return call.barrier().wait_ms() == 0 ? *response : "";
    }
    case v1::CoordinatorCall::kMarkCut:
      return to->MarkCut(call.mark_cut()).ToString();
    case v1::CoordinatorCall::kOpenCut: {
      const absl::StatusOr<uint64_t> cut = to->OpenCut();
      return cut.ok() ? absl::StrCat(*cut) : cut.status().ToString();
    }
    case v1::CoordinatorCall::kSetCutRound:
      to->SetCutRound(call.set_cut_round());
      return "";
    case v1::CoordinatorCall::kCloseCut:
      to->CloseCut();
      return "";
    case v1::CoordinatorCall::kEndJob:
      return to->Drain(call.end_job().reason()).ToString();
    case v1::CoordinatorCall::kDefineFeatures:
      return Text(to->DefineFeatures(call.define_features()));
    case v1::CoordinatorCall::kDefineInput:
      return to->DefineInput(call.define_input()).ToString();
    case v1::CoordinatorCall::kReportEvaluation:
      return to->ReportEvaluation(call.report_evaluation()).ToString();
    case v1::CoordinatorCall::kStopTraining:
      return to->StopTraining(call.stop_training()).ToString();
    case v1::CoordinatorCall::kBeginEpoch:
      return Text(to->BeginEpoch(call.begin_epoch()));
    case v1::CoordinatorCall::kRecordFile:
      return to->RecordFile(call.record_file()).ToString();
    default:
      to->CheckDeadlines();
      return "";
  }
}

std::string Described(const Coordinator& coordinator) {
  v1::CheckpointManifest manifest;
  coordinator.DescribeCut(&manifest);
  v1::JobStatusRequest request;
  request.set_with_histograms(true);
  v1::JobStatusResponse status = coordinator.JobStatus(request);
  // Of the process.
  status.clear_uptime_seconds();
  return absl::StrCat(manifest.DebugString(), status.DebugString());
}

CoordinatorOptions RandomCalls::Options() {
  CoordinatorOptions options;
  options.num_workers = kNumWorkers;
  options.num_servers = kNumServers;
  options.lease = absl::Seconds(10);
  // Few jobs end before the test does.
  options.restart_grace = absl::Minutes(10);
  return options;
}

v1::CoordinatorCall RandomCalls::Next(const v1::CoordinatorState& state) {
  v1::CoordinatorCall call;
  const uint64_t dice = random_.Below(1000);
  if (dice < 40) {
    v1::RegisterWorkerRequest& request = *call.mutable_register_worker();
    request.set_worker_index(Below(kNumWorkers + (Below(8) == 0)));
    request.set_pid(Below(1000));
    request.set_host("h");
  } else if (dice < 250) {
    Heartbeat(state, call.mutable_heartbeat());
  } else if (dice < 252) {
    Name(state, call.mutable_finish_worker());
    call.mutable_finish_worker()->set_succeeded(Below(8) != 0);
  } else if (dice < 450) {
    ServerHeartbeat(state, call.mutable_server_heartbeat());
  } else if (dice < 500) {
    DefinePhase(call.mutable_define_phase());
  } else if (dice < 650) {
    LeaseRanges(state, call.mutable_lease_ranges());
  } else if (dice < 750) {
    v1::BarrierRequest& request = *call.mutable_barrier();
    Name(state, &request);
    request.set_name(absl::StrCat("b", Below(20)));
    request.set_wait_ms(Below(2) * 1000);
    if (Below(4) == 0) request.set_trained_epochs(Below(5));
  } else if (dice < 810) {
    MarkCut(state, call.mutable_mark_cut());
  } else if (dice < 825 && !state.cuts().open()) {
    call.set_open_cut(true);
  } else if (dice < 840 && state.cuts().open()) {
    call.set_set_cut_round(Below(100));
  } else if (dice < 860 && state.cuts().open()) {
    call.set_close_cut(true);
  } else if (dice > 860 && dice < 880) {
    Training(state, &call);
  } else if (dice >= 880 && dice < 890) {
    v1::DefineInputRequest& request = *call.mutable_define_input();
    Name(state, &request);
    request.set_name(Below(2) == 0 ? "train" : "test");
    request.set_part(Below(3));
    request.set_last(Below(3) == 0);
    request.add_files()->set_path(absl::StrCat("f", Below(3)));
  } else if (dice >= 890 && dice < 893) {
    v1::DefineFeaturesRequest& request = *call.mutable_define_features();
    Name(state, &request);
    v1::Feature& feature = *request.mutable_features()->add_features();
    feature.set_name(absl::StrCat("f", Below(3)));
    feature.mutable_sparse()->set_type(v1::TEXT);
  } else if (dice == 860 && Below(5) == 0) {
    call.mutable_end_job()->set_reason("enough");
  } else {
    call.set_check_deadlines(true);
  }
  return call;
}

// Mostly the newest incarnation of a worker.
template <typename Request>
void RandomCalls::Name(const v1::CoordinatorState& state, Request* request) {
  request->set_worker_index(Below(kNumWorkers));
  request->set_worker_generation(
      state.workers(request->worker_index()).state().worker_generation() -
      (Below(20) == 0));
}
std::string RandomCalls::PhaseName() {
  return absl::StrCat(Below(3) == 0 ? "test/" : "train/", Below(4));
}

void RandomCalls::Heartbeat(const v1::CoordinatorState& state,
                            v1::HeartbeatRequest* request) {
  Name(state, request);
  request->set_report(state.workers(request->worker_index()).last_report() +
                      Below(2));
  for (uint64_t i = Below(3); i > 0; --i) {
    v1::PhaseProgress& progress = *request->add_progress();
    progress.set_phase(Below(2) == 0 ? "train" : "test");
    progress.set_epoch(Below(20));
    progress.set_examples(Below(1000));
    progress.set_loss_sum(random_.Uniform());
    v1::StageTime& stage = *progress.add_stages();
    stage.set_stage(Below(2) == 0 ? "pull" : "push");
    stage.set_seconds(random_.Uniform());
    for (uint64_t j = Below(4); j > 0; --j) {
      progress.add_staleness_histogram(Below(9));
    }
    for (uint64_t j = Below(4); j > 0; --j) {
      progress.add_buckets(Below(AucHistogram::kNumBuckets));
      progress.add_positives(Below(3));
      progress.add_negatives(Below(3));
    }
  }
}

// Says, often, what the server has of workers that died.
void RandomCalls::ServerHeartbeat(const v1::CoordinatorState& state,
                                  v1::ServerHeartbeatRequest* request) {
  const uint32_t server = Below(kNumServers);
  request->set_server_index(server);
  request->set_server_generation(
      std::max<uint64_t>(1, state.servers(server).server_generation()) +
      (Below(50) == 0));
  request->set_workers_version(state.workers_version() - Below(2));
  for (const v1::DeathState& death : state.deaths().deaths()) {
    if (!death.needs_ledgers() || Below(2) == 0) continue;
    v1::WorkerLedger& ledger = *request->add_ledgers();
    *ledger.mutable_worker() = death.worker();
    ledger.set_highest(3);
    for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
      v1::PushRecord& push = *ledger.add_pushes();
      push.set_sequence(sequence);
      push.set_message_count(2);
      for (uint32_t message = 0; message < 2; ++message) {
        if (Below(2) == 0) push.add_messages(message);
      }
      v1::ExampleInterval& interval = *push.add_examples();
      interval.set_begin(sequence * 10);
      interval.set_end(sequence * 10 + 7);
      *push.add_dense_examples() = interval;
    }
  }
}

void RandomCalls::DefinePhase(v1::DefinePhaseRequest* request) {
  request->set_phase_name(PhaseName());
  const int num_ranges = request->phase_name() == "train/3" ? 0 : 12;
  for (int i = 0; i < num_ranges; ++i) {
    v1::DataRange& range = *request->add_ranges();
    range.set_source(i / 6);
    range.set_begin(i % 6 * 10);
    if (i % 6 != 5) range.set_end(i % 6 * 10 + 10);
  }
  // Now and then another definition of the same phase.
  request->set_num_examples(100 + (Below(10) == 0));
  if (Below(20) == 0) request->set_data_order("another");
}

void RandomCalls::LeaseRanges(const v1::CoordinatorState& state,
                              v1::LeaseRangesRequest* request) {
  Name(state, request);
  request->set_phase_name(PhaseName());
  request->set_max_ranges(Below(3));
  uint64_t& last = last_request_[request->worker_generation()];
  // Now and then one again.
  if (last == 0 || Below(5) != 0) ++last;
  request->set_request(last);
  const uint64_t newest = state.ranges().next_lease();
  for (uint64_t i = Below(4); i > 0; --i) {
    request->add_done(newest - std::min(newest, Below(12)));
  }
}

void RandomCalls::Training(const v1::CoordinatorState& state,
                           v1::CoordinatorCall* call) {
  switch (Below(4)) {
    case 0: {
      v1::ReportEvaluationRequest& request = *call->mutable_report_evaluation();
      Name(state, &request);
      request.mutable_evaluation()->set_work(absl::StrCat("test/", Below(9)));
      request.mutable_evaluation()->set_auc(random_.Uniform());
      return;
    }
    case 1:
      // Few jobs are stopped before the test ends.
      if (Below(50) == 0) {
        call->mutable_stop_training()->set_reason("enough");
        return;
      }
      [[fallthrough]];
    case 2:
      call->mutable_begin_epoch()->set_epoch(Below(6));
      return;
    default: {
      v1::RecordFileRequest& request = *call->mutable_record_file();
      Name(state, &request);
      const uint64_t epoch = Below(state.training().files_size() + 2);
      request.mutable_file()->set_epoch(epoch);
      request.mutable_file()->set_file(absl::StrCat("f", epoch));
      request.mutable_file()->set_trained(Below(2) == 0);
    }
  }
}

void RandomCalls::MarkCut(const v1::CoordinatorState& state,
                          v1::MarkCutRequest* request) {
  Name(state, request);
  request->set_cut(state.cuts().newest() + Below(3) - (Below(3) == 0));
  for (uint64_t i = Below(3); i > 0; --i) {
    v1::TrainedExamples& trained = *request->add_trained();
    trained.set_phase_name(PhaseName());
    for (uint64_t j = Below(3); j > 0; --j) {
      v1::DataRange& range = *trained.add_ranges();
      range.set_source(Below(2));
      range.set_begin(Below(60));
      range.set_end(range.begin() + Below(15));
    }
  }
}

}  // namespace oarlock::coordinator
