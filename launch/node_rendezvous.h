// Where the launchers of a job's nodes meet: what the one of node 0 knows of
// the others, and what it answers them.
//
// A job runs in attempts. One begins when all nodes are ready; its processes
// run until all nodes are done, or until the first failure on any of them. Then
// every node ends its processes and gets ready for the next attempt, while
// --max_restart allows and the job is collective; else the rendezvous is over.

#ifndef OARLOCK_LAUNCH_NODE_RENDEZVOUS_H_
#define OARLOCK_LAUNCH_NODE_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/v1/launch.pb.h"

namespace oarlock::launch {

inline constexpr uint32_t kNodeRendezvousVersion = 1;
// Reports per `heartbeat_timeout`, and as many ticks of who listens to them.
// Missed heartbeats are counted in the listener's own ticks: one that was
// stopped does not take its own absence for the others'.
inline constexpr int kHeartbeatsPerTimeout = 8;

// Thread-safe. Knows no gRPC.
//
// 1. A node keeps its rank: that of --rank; without one, at the begin of the
//    first attempt, the lowest that is free, in order of arrival. A launcher
//    that comes instead of one that has gone gets a free rank the same way.
// 2. Of the failures of an attempt the first one counts, on all nodes.
class NodeRendezvous {
 public:
  struct Options {
    // What a launcher has to be like: protocol_version, job_id, num_nodes,
    // max_restart, and whether its share is collective. That of node 0, which
    // comes first; without one by --rank it has rank 0 nevertheless.
    v1::NodeReport expected;
    // --master, for messages.
    std::string endpoint;
    absl::Duration rendezvous_timeout;
    absl::Duration heartbeat_timeout;
  };

  // `clock` outlives this.
  NodeRendezvous(Options options, const Clock& clock);

  // Answers a launcher. Errors: see LaunchService.Report.
  absl::StatusOr<v1::NodeReportResponse> Report(const v1::NodeReport& report);

  // Time goes by: to be called kHeartbeatsPerTimeout times per
  // `heartbeat_timeout`.
  void Tick();

  // Waits until every node but this one has heard that the rendezvous is over,
  // or `timeout` is over. For node 0, before it ends.
  void AwaitAllNotified(absl::Duration timeout) const;

 private:
  enum class State { kWaiting, kRunning, kOver };

  struct Node {
    uint64_t launcher_id = 0;
    // -1 until it is given.
    int rank = -1;
    std::string host;
    v1::NodeShare share;
    bool ready = false;
    // Has said that it runs the attempt's processes.
    bool started = false;
    bool done = false;
    // Has heard that the rendezvous is over.
    bool notified = false;
    int missed_heartbeats = 0;
  };

  absl::Status Check(const v1::NodeReport& report) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Node*> Enter(const v1::NodeReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnReady(const v1::NodeShare& share, Node* node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFailed(const v1::NodeFailure& failure, const Node& node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::NodeReportResponse ResponseTo(const v1::NodeReport& report, Node* node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there can be an attempt after this one.
  bool MayGoOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The attempt has failed.
  void EndAttempt(const std::string& reason, bool may_go_on)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUp(const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTaken(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int LowestFreeRank() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // "node 1 (10.0.0.2)".
  std::string NameOf(const Node& node) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // "node 1 (10.0.0.2), node 3"; of those that are not ready.
  std::string Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllNotified() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Clock& clock_;
  const int num_nodes_;
  const int rendezvous_ticks_;

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kWaiting;
  // Of the attempt that runs, or is waited for.
  uint32_t attempt_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those that are there, in order of arrival.
  std::vector<Node> nodes_ ABSL_GUARDED_BY(mutex_);
  // By rank: where it was when it was there last.
  std::vector<std::string> last_hosts_ ABSL_GUARDED_BY(mutex_);
  // In this state.
  int ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  // How the last attempt ended.
  v1::AttemptOver over_ ABSL_GUARDED_BY(mutex_);
  // The last launcher that was refused, for the message of who waits in vain.
  std::string last_refusal_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_NODE_RENDEZVOUS_H_
