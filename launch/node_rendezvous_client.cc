#include "launch/node_rendezvous_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "launch/node_rendezvous.h"

namespace oarlock::launch {
namespace {

// Between two lines about who is waited for.
constexpr absl::Duration kProgressInterval = absl::Seconds(10);
// How long a response may take; reports that node 0 hears late or twice do no
// harm.
constexpr int kResponseIntervals = 2;
// Reports per interval of who waits for the others: it shall not be the one
// that they wait for then.
constexpr int kReportsWhileWaiting = 4;

// Whether the next report may fare better.
bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

}  // namespace

NodeRendezvousClient::NodeRendezvousClient(
    Options options, std::shared_ptr<grpc::Channel> channel)
    : options_(std::move(options)),
      clock_(*options_.clocks.monotonic),
      interval_(options_.heartbeat_timeout / kHeartbeatsPerTimeout),
      stub_(v1::LaunchService::NewStub(std::move(channel))),
      report_(options_.report) {
  reporter_ = std::thread([this] { Run(); });
}

NodeRendezvousClient::~NodeRendezvousClient() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  reporter_.join();
}

void NodeRendezvousClient::Run() {
  const int progress_reports =
      kReportsWhileWaiting *
          static_cast<int>(absl::FDivDuration(kProgressInterval, interval_)) +
      1;
  absl::MutexLock lock(&mutex_);
  const auto wake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closing_ || news_;
  };
  absl::Duration took;
  for (int reports = 0;;) {
    const absl::Duration pause =
        report_.has_ready() ? interval_ / kReportsWhileWaiting : interval_;
    clock_.AwaitFor(&mutex_, absl::Condition(&wake), pause - took);
    if (closing_) return;
    news_ = false;
    // While the processes of an attempt end that others have ended, this node
    // still says that it is there.
    const bool only_heartbeat = over_ && over_->again();
    if (report_.state_case() == v1::NodeReport::STATE_NOT_SET ||
        (over_ && !only_heartbeat)) {
      took = absl::ZeroDuration();
      continue;
    }
    const v1::NodeReport report = report_;
    const int number = report_number_;
    mutex_.Unlock();
    v1::NodeReportResponse response;
    const absl::Time begin = clock_.Now();
    const absl::Status status = Report(report, &response);
    took = clock_.Now() - begin;
    mutex_.Lock();
    if (number != report_number_) {
      news_ = true;
      continue;
    }
    if (only_heartbeat) continue;
    if (status.ok()) {
      OnResponse(response);
    } else {
      OnFailure(status, took);
    }
    if (report.has_ready() && !attempt_ && ++reports % progress_reports == 0) {
      Log().info("still waiting at {} for {}", options_.endpoint,
                 unanswered_ > 0 ? "node 0" : missing_);
    }
  }
}

absl::Status NodeRendezvousClient::Report(const v1::NodeReport& report,
                                          v1::NodeReportResponse* response) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(GrpcDeadline(kResponseIntervals * interval_));
  if (!options_.token.empty()) {
    context.AddMetadata(cluster::kTokenMetadataKey, options_.token);
  }
  return cluster::FromGrpc(stub_->Report(&context, report, response));
}

void NodeRendezvousClient::OnResponse(const v1::NodeReportResponse& response) {
  unanswered_ = 0;
  if (response.has_over()) {
    over_ = response.over();
  } else if (response.has_ready() && report_.has_ready()) {
    attempt_ = response.ready();
    report_.set_running(response.ready().attempt());
    ++report_number_;
    news_ = true;
  } else if (response.has_waiting()) {
    missing_ = response.waiting().missing();
  }
}

void NodeRendezvousClient::OnFailure(const absl::Status& status,
                                     absl::Duration took) {
  if (!IsTransient(status)) {
    refusal_ = absl::IsUnimplemented(status)
                   ? absl::FailedPreconditionError(absl::StrCat(
                         "what listens at --master ", options_.endpoint,
                         " is no launcher; node 0's has to listen there"))
                   : absl::Status(
                         status.code(),
                         absl::StrCat("node 0 at --master ", options_.endpoint,
                                      " refused: ", status.message()));
    over_.emplace().set_reason(std::string(refusal_.message()));
    return;
  }
  // Of an attempt that took longer, this process was stopped for a part.
  unanswered_ += std::clamp(
      static_cast<int>(std::round(absl::FDivDuration(took, interval_))), 1,
      kResponseIntervals);
  last_failure_ = std::string(status.message());
  if (report_.has_ready()) {
    if (clock_.Now() >= rendezvous_deadline_) {
      refusal_ = NobodyAnswered();
      over_.emplace().set_reason(std::string(refusal_.message()));
    }
    return;
  }
  if (unanswered_ < kHeartbeatsPerTimeout) return;
  v1::AttemptOver& over = over_.emplace();
  over.set_again(collective_ && attempt_.has_value() &&
                 attempt_->attempt() < options_.report.max_restart());
  over.set_reason(absl::StrCat(
      "node 0 (", options_.endpoint, ") sent no heartbeat for ",
      absl::FormatDuration(options_.heartbeat_timeout),
      ": its launcher was stopped or died, or this node is cut off: ",
      last_failure_));
}

absl::Status NodeRendezvousClient::NobodyAnswered() const {
  return absl::DeadlineExceededError(absl::StrCat(
      "node 0 did not answer at --master ", options_.endpoint, " within ",
      absl::FormatDuration(options_.rendezvous_timeout),
      ", last: ", last_failure_,
      "; start it on that machine, with --rank 0 or without --rank"));
}

void NodeRendezvousClient::Tell(const v1::NodeReport& report) {
  report_ = report;
  ++report_number_;
  news_ = true;
}

absl::StatusOr<v1::NodesReady> NodeRendezvousClient::Join(v1::NodeShare share) {
  absl::MutexLock lock(&mutex_);
  attempt_.reset();
  over_.reset();
  unanswered_ = 0;
  // Node 0, whose message says more, has the first word.
  rendezvous_deadline_ =
      clock_.Now() + options_.rendezvous_timeout + 2 * interval_;
  v1::NodeReport report = options_.report;
  collective_ = share.collective();
  *report.mutable_ready() = std::move(share);
  Tell(report);
  mutex_.Await(absl::Condition(this, &NodeRendezvousClient::HasAttemptOrEnd));
  if (!refusal_.ok()) return refusal_;
  if (attempt_) return *attempt_;
  return absl::AbortedError(over_->reason());
}

std::optional<v1::AttemptOver> NodeRendezvousClient::over() const {
  absl::MutexLock lock(&mutex_);
  return over_;
}

v1::AttemptOver NodeRendezvousClient::AwaitOver() {
  mutex_.Await(absl::Condition(this, &NodeRendezvousClient::IsOver));
  return *over_;
}

v1::AttemptOver NodeRendezvousClient::Done() {
  absl::MutexLock lock(&mutex_);
  if (over_) return *over_;
  v1::NodeReport report = options_.report;
  report.set_done(attempt_->attempt());
  Tell(report);
  return AwaitOver();
}

v1::AttemptOver NodeRendezvousClient::Failed(const std::string& what,
                                             bool final) {
  absl::MutexLock lock(&mutex_);
  if (over_) {
    if (!final || !over_->again()) return *over_;
    // The others would wait for this node in vain.
    over_.reset();
  }
  v1::NodeReport report = options_.report;
  report.mutable_failed()->set_attempt(attempt_->attempt());
  report.mutable_failed()->set_what(what);
  report.mutable_failed()->set_final(final);
  Tell(report);
  return AwaitOver();
}

}  // namespace oarlock::launch
