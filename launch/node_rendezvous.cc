#include "launch/node_rendezvous.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace oarlock::launch {
namespace {

absl::Status Differs(absl::string_view flag, absl::string_view theirs,
                     absl::string_view ours) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is ", theirs, " here and ", ours,
                   " on node 0; all nodes need the same"));
}

absl::string_view ModeName(const v1::NodeShare& share) {
  return share.collective() ? "collective" : "one with servers";
}

// The attempt that a report of processes is about.
uint32_t AttemptOf(const v1::NodeReport& report) {
  switch (report.state_case()) {
    case v1::NodeReport::kRunning:
      return report.running();
    case v1::NodeReport::kDone:
      return report.done();
    default:
      return report.failed().attempt();
  }
}

}  // namespace

NodeRendezvous::NodeRendezvous(Options options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      num_nodes_(static_cast<int>(options_.expected.num_nodes())),
      rendezvous_ticks_(static_cast<int>(
          std::ceil(absl::FDivDuration(options_.rendezvous_timeout,
                                       options_.heartbeat_timeout) *
                    kHeartbeatsPerTimeout))),
      last_hosts_(num_nodes_) {
  absl::MutexLock lock(&mutex_);
  // Nobody can come before node 0.
  Node self;
  self.launcher_id = options_.expected.launcher_id();
  self.rank = 0;
  self.host = options_.expected.ready().host();
  nodes_.push_back(std::move(self));
}

std::string NodeRendezvous::NameOf(const Node& node) const {
  return node.rank < 0 ? absl::StrCat("a node (", node.host, ")")
                       : absl::StrCat("node ", node.rank, " (", node.host, ")");
}

bool NodeRendezvous::IsTaken(int rank) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const Node& node) { return node.rank == rank; });
}

int NodeRendezvous::LowestFreeRank() const {
  int rank = 0;
  while (IsTaken(rank)) ++rank;
  return rank;
}

std::string NodeRendezvous::Missing() const {
  std::vector<std::string> missing;
  int unranked = 0;
  for (const Node& node : nodes_) {
    if (node.rank < 0) ++unranked;
    if (!node.ready) missing.push_back(NameOf(node));
  }
  // Whoever has come without a rank takes one of the others.
  for (int rank = 0; rank < num_nodes_; ++rank) {
    if (IsTaken(rank)) continue;
    if (unranked-- > 0) continue;
    missing.push_back(last_hosts_[rank].empty()
                          ? absl::StrCat("node ", rank)
                          : absl::StrCat("node ", rank, " (last at ",
                                         last_hosts_[rank], ")"));
  }
  return absl::StrJoin(missing, ", ");
}

absl::Status NodeRendezvous::Check(const v1::NodeReport& report) const {
  const v1::NodeReport& expected = options_.expected;
  if (report.protocol_version() != expected.protocol_version()) {
    return Differs("the version of the protocol",
                   absl::StrCat(report.protocol_version()),
                   absl::StrCat(expected.protocol_version()));
  }
  if (report.job_id() != expected.job_id()) {
    return Differs("--job_id", absl::StrCat("\"", report.job_id(), "\""),
                   absl::StrCat("\"", expected.job_id(), "\""));
  }
  if (report.num_nodes() != expected.num_nodes()) {
    return Differs("--nnodes", absl::StrCat(report.num_nodes()),
                   absl::StrCat(expected.num_nodes()));
  }
  if (report.max_restart() != expected.max_restart()) {
    return Differs("--max_restart", absl::StrCat(report.max_restart()),
                   absl::StrCat(expected.max_restart()));
  }
  if (report.ready().collective() != expected.ready().collective()) {
    return Differs("the job", ModeName(report.ready()),
                   ModeName(expected.ready()));
  }
  if (report.rank() >= num_nodes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rank is ", report.rank(), "; it must be 0 to ", num_nodes_ - 1));
  }
  const bool all_here = static_cast<int>(nodes_.size()) == num_nodes_;
  const bool taken = report.rank() >= 0 && IsTaken(report.rank());
  if (state_ != State::kOver && (all_here || taken)) {
    std::vector<std::string> names;
    for (const Node& node : nodes_) {
      if (all_here || node.rank == report.rank()) names.push_back(NameOf(node));
    }
    return absl::AlreadyExistsError(
        absl::StrCat(absl::StrJoin(names, ", "),
                     all_here ? " are all nodes of the job, and have come"
                              : " has come already",
                     "; each node runs one launcher, with a --rank of its own "
                     "or none"));
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeRendezvous::Node*> NodeRendezvous::Enter(
    const v1::NodeReport& report) {
  for (Node& node : nodes_) {
    if (node.launcher_id == report.launcher_id()) return &node;
  }
  // It was taken for dead, and has heard nothing of that.
  if (!report.has_ready()) return nullptr;
  absl::Status status = Check(report);
  if (status.ok() && state_ == State::kOver) {
    status = absl::FailedPreconditionError(
        absl::StrCat("the job is over: ", over_.reason()));
  }
  if (!status.ok()) {
    if (last_refusal_ != status.message()) {
      Log().warn("rendezvous: refused a launcher: {}",
                 std::string(status.message()));
    }
    last_refusal_ = std::string(status.message());
    return status;
  }
  Node node;
  node.launcher_id = report.launcher_id();
  node.rank = report.rank();
  node.host = report.ready().host();
  nodes_.push_back(std::move(node));
  Log().info("rendezvous: {} has come, {} of {} nodes are here",
             NameOf(nodes_.back()), nodes_.size(), num_nodes_);
  return &nodes_.back();
}

absl::StatusOr<v1::NodeReportResponse> NodeRendezvous::Report(
    const v1::NodeReport& report) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_ASSIGN_OR_RETURN(Node* const node, Enter(report));
  if (node == nullptr) {
    v1::NodeReportResponse response;
    *response.mutable_over() = over_;
    if (over_.reason().empty() && !over_.success()) {
      // Of a rendezvous before this one.
      response.mutable_over()->set_again(MayGoOn());
      response.mutable_over()->set_reason("node 0's launcher was started anew");
    }
    return response;
  }
  node->missed_heartbeats = 0;
  if (report.has_ready()) {
    OnReady(report.ready(), node);
  } else if (state_ == State::kWaiting && report.failed().final()) {
    // Another failure ended the attempt first, but this one ends the job.
    OnFailed(report.failed(), *node);
  } else if (state_ == State::kRunning && AttemptOf(report) == attempt_) {
    node->started = true;
    if (report.has_done()) {
      node->done = true;
      OnDone();
    } else if (report.has_failed()) {
      OnFailed(report.failed(), *node);
    }
  }
  return ResponseTo(report, node);
}

void NodeRendezvous::OnReady(const v1::NodeShare& share, Node* node) {
  // It ran, and asks to start anew: it had lost sight of this node.
  if (state_ == State::kRunning && node->started) {
    EndAttempt(absl::StrCat(NameOf(*node), " was cut off, and is back"), true);
  }
  if (state_ != State::kWaiting) return;
  node->ready = true;
  node->share = share;
  const bool all_ready =
      static_cast<int>(nodes_.size()) == num_nodes_ &&
      std::all_of(nodes_.begin(), nodes_.end(),
                  [](const Node& each) { return each.ready; });
  if (all_ready) BeginAttempt();
}

void NodeRendezvous::BeginAttempt() {
  for (Node& node : nodes_) {
    if (node.rank < 0) node.rank = LowestFreeRank();
    last_hosts_[node.rank] = node.host;
  }
  state_ = State::kRunning;
}

void NodeRendezvous::OnDone() {
  if (!std::all_of(nodes_.begin(), nodes_.end(),
                   [](const Node& node) { return node.done; })) {
    return;
  }
  state_ = State::kOver;
  over_.Clear();
  over_.set_success(true);
}

void NodeRendezvous::OnFailed(const v1::NodeFailure& failure,
                              const Node& node) {
  EndAttempt(absl::StrCat(NameOf(node), ": ", failure.what()),
             !failure.final());
}

bool NodeRendezvous::MayGoOn() const {
  return options_.expected.ready().collective() &&
         attempt_ < options_.expected.max_restart();
}

void NodeRendezvous::EndAttempt(const std::string& reason, bool may_go_on) {
  if (!may_go_on || !MayGoOn()) {
    GiveUp(reason);
    return;
  }
  ++attempt_;
  state_ = State::kWaiting;
  ticks_ = 0;
  over_.Clear();
  over_.set_again(true);
  over_.set_reason(reason);
  for (Node& node : nodes_) node.ready = node.started = node.done = false;
}

void NodeRendezvous::GiveUp(const std::string& reason) {
  state_ = State::kOver;
  over_.Clear();
  over_.set_reason(reason);
}

v1::NodeReportResponse NodeRendezvous::ResponseTo(const v1::NodeReport& report,
                                                  Node* node) {
  v1::NodeReportResponse response;
  if (state_ == State::kOver) {
    node->notified = true;
    *response.mutable_over() = over_;
  } else if (report.has_ready() && state_ == State::kWaiting) {
    response.mutable_waiting()->set_missing(Missing());
  } else if (!report.has_ready() &&
             (state_ == State::kWaiting || AttemptOf(report) != attempt_)) {
    *response.mutable_over() = over_;
  } else {
    response.mutable_ready()->set_attempt(attempt_);
    response.mutable_ready()->set_node(node->rank);
    if (!report.has_ready()) return response;
    std::vector<const Node*> by_rank(nodes_.size());
    for (const Node& each : nodes_) by_rank[each.rank] = &each;
    for (const Node* each : by_rank) {
      *response.mutable_ready()->add_nodes() = each->share;
    }
  }
  return response;
}

void NodeRendezvous::Tick() {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> silent;
  for (size_t i = 0; i < nodes_.size();) {
    // One more than fits: a tick may come just before a report.
    if (++nodes_[i].missed_heartbeats <= kHeartbeatsPerTimeout) {
      ++i;
      continue;
    }
    silent.push_back(NameOf(nodes_[i]));
    nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!silent.empty() && state_ != State::kOver) {
    const std::string text = absl::StrCat(
        absl::StrJoin(silent, ", "), " sent no heartbeat for ",
        absl::FormatDuration(options_.heartbeat_timeout),
        ": its launcher was stopped or died, or it is cut off from node 0");
    if (state_ == State::kRunning) {
      EndAttempt(text, true);
    } else {
      Log().warn("rendezvous: {}; its place is free again", text);
    }
  }
  if (state_ != State::kWaiting || ++ticks_ < rendezvous_ticks_) return;
  GiveUp(absl::StrCat(
      Missing(), " did not come to ", options_.endpoint, " within ",
      absl::FormatDuration(options_.rendezvous_timeout),
      attempt_ == 0 ? ""
                    : absl::StrCat(" to start again after: ", over_.reason()),
      last_refusal_.empty() ? "" : "; refused meanwhile: ", last_refusal_));
}

bool NodeRendezvous::AllNotified() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.notified || node.rank == 0;
  });
}

void NodeRendezvous::AwaitAllNotified(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  clock_.AwaitFor(&mutex_, absl::Condition(this, &NodeRendezvous::AllNotified),
                  timeout);
}

}  // namespace oarlock::launch
