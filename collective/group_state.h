// Who belongs to a group, who has come, lives, has left: what rank 0 knows, and
// what it says to whom.

#ifndef OARLOCK_COLLECTIVE_GROUP_STATE_H_
#define OARLOCK_COLLECTIVE_GROUP_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/v1/collective.pb.h"

namespace oarlock::collective {

inline constexpr uint32_t kRendezvousVersion = 1;
// Heartbeats per `heartbeat_timeout`, and as many ticks of who listens to
// them. Missed heartbeats are counted in the listener's own ticks: when the
// listener was stopped, it does not take its own absence for the others'.
inline constexpr int kHeartbeatsPerTimeout = 8;

// What a message tells; never OK, whatever its code.
absl::Status StatusOf(const v1::GroupFailure& failure);

// Where a rank's messages go. Thread-safe.
class MemberConnection {
 public:
  virtual ~MemberConnection() = default;
  // Never blocks for long; what cannot be delivered is dropped.
  virtual void Send(const v1::GroupMessage& message) = 0;
  // Ends the connection.
  virtual void Close() = 0;
};

// Thread-safe. Knows no gRPC.
//
// 1. Until all have come a rank that ends frees its place; from then on its
//    end is the group's, unless it has left.
// 2. The first failure stays; everybody who is there gets it once.
// 3. A rank of a newer generation waits outside, and ends this group.
class GroupState {
 public:
  struct Options {
    // What a rank has to be like; its rank and address are not looked at.
    v1::JoinHello expected;
    // Of every rank, for messages.
    std::vector<std::string> endpoints;
    // Given to all with the addresses.
    std::string secret;
    absl::Duration join_timeout;
    absl::Duration heartbeat_timeout;
  };

  // `clock` outlives this.
  GroupState(Options options, const Clock& clock);

  // A rank comes. `connection` is used until Closed(rank, connection). Errors:
  // see RendezvousService.Join.
  absl::Status Enter(const v1::JoinHello& hello, MemberConnection* connection);
  // What comes from a connection that is not the rank's (any more) is
  // skipped.
  void OnMessage(int rank, const MemberConnection* connection,
                 const v1::MemberMessage& message);
  // The connection of `rank` ended.
  void Closed(int rank, const MemberConnection* connection);

  // Time goes by: to be called kHeartbeatsPerTimeout times per
  // `heartbeat_timeout`.
  void Tick();

  // Ends the group, if it has not ended.
  void Fail(const absl::Status& status);

  // Waits until nobody has a connection any more, or `timeout` is over.
  void AwaitEmpty(absl::Duration timeout) const;

  // "rank 2 (10.0.0.3:6170)".
  std::string NameOf(int rank) const;

 private:
  struct Member {
    MemberConnection* connection = nullptr;
    v1::JoinHello hello;
    std::vector<uint64_t> operations;
    int missed_heartbeats = 0;
    bool left = false;
  };

  absl::Status CheckHello(const v1::JoinHello& hello) const;
  std::vector<uint32_t> Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string NamesOf(const std::vector<uint32_t>& ranks) const;
  // To those who have come: whom they wait for.
  void SendMissing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToAll(const v1::GroupMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailLocked(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The message of `rank`, with who has not begun the operation.
  absl::Status FailureOf(int rank, const v1::GroupFailure& failure) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Welcome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TickBeforeWelcome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsEmpty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Clock& clock_;
  const int join_ticks_;

  mutable absl::Mutex mutex_;
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  bool complete_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last rank that was refused, for the message of who waits in vain.
  std::string last_refusal_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_GROUP_STATE_H_
