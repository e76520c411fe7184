// A launcher's part in the rendezvous at --master: tells how it is with its
// node, and hears how it is with the job.

#ifndef OARLOCK_LAUNCH_NODE_RENDEZVOUS_CLIENT_H_
#define OARLOCK_LAUNCH_NODE_RENDEZVOUS_CLIENT_H_

#include <grpcpp/channel.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/v1/launch.grpc.pb.h"

namespace oarlock::launch {

// Thread-safe, but for Join, Done and Failed, which one thread calls in turn.
// A thread of its own reports, several times in `heartbeat_timeout`.
class NodeRendezvousClient {
 public:
  struct Options {
    // All but its state.
    v1::NodeReport report;
    // --master, for messages.
    std::string endpoint;
    // Of the calls' metadata; empty: none.
    std::string token;
    absl::Duration rendezvous_timeout;
    absl::Duration heartbeat_timeout;
    // Reports and timeouts are by the monotonic one; they outlive the client.
    // How long a call to node 0 may take is gRPC's, and so is the clock of
    // that.
    Clocks clocks = {};
  };

  NodeRendezvousClient(Options options, std::shared_ptr<grpc::Channel> channel);
  // The others hear nothing of it: they take the node for dead.
  ~NodeRendezvousClient();

  NodeRendezvousClient(const NodeRendezvousClient&) = delete;
  NodeRendezvousClient& operator=(const NodeRendezvousClient&) = delete;

  // Joins the next attempt, and returns when it begins: from then on the
  // others take this node's processes to run. DeadlineExceeded: who has not
  // come, or that node 0 did not answer. Errors of LaunchService.Report.
  // Aborted: the job has ended meanwhile.
  absl::StatusOr<v1::NodesReady> Join(v1::NodeShare share);

  // How the attempt ended, once the others have ended it, or node 0 has been
  // silent for `heartbeat_timeout`.
  std::optional<v1::AttemptOver> over() const;

  // The processes of this node have ended: well, or not. Returns how the
  // attempt ended; Done waits for the other nodes without limit.
  v1::AttemptOver Done();
  v1::AttemptOver Failed(const std::string& what, bool final);

 private:
  void Run();
  absl::Status Report(const v1::NodeReport& report,
                      v1::NodeReportResponse* response);
  void OnResponse(const v1::NodeReportResponse& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFailure(const absl::Status& status, absl::Duration took)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NobodyAnswered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(const v1::NodeReport& report) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::AttemptOver AwaitOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasAttemptOrEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return attempt_.has_value() || over_.has_value() || !refusal_.ok();
  }
  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return over_.has_value();
  }

  const Options options_;
  const Clock& clock_;
  const absl::Duration interval_;
  const std::unique_ptr<v1::LaunchService::Stub> stub_;

  mutable absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // What is reported; without a state until Join. The number tells a report
  // that has been changed since from the one that a response is to.
  v1::NodeReport report_ ABSL_GUARDED_BY(mutex_);
  int report_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // To be reported at once.
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  bool collective_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<v1::NodesReady> attempt_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::AttemptOver> over_ ABSL_GUARDED_BY(mutex_);
  // Not OK: this launcher does not belong there.
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  // Intervals without a response to a report, and why the last one got none.
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string last_failure_ ABSL_GUARDED_BY(mutex_);
  std::string missing_ ABSL_GUARDED_BY(mutex_);
  absl::Time rendezvous_deadline_ ABSL_GUARDED_BY(mutex_);

  std::thread reporter_;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_NODE_RENDEZVOUS_CLIENT_H_
