// A rank's place in its group: the stream to the rendezvous, and what it hears
// there of the others.

#ifndef OARLOCK_COLLECTIVE_GROUP_MEMBERSHIP_H_
#define OARLOCK_COLLECTIVE_GROUP_MEMBERSHIP_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/v1/collective.grpc.pb.h"

namespace oarlock::collective {

// Thread-safe. One thread reads the stream, one sends heartbeats and counts
// those of rank 0 that are missed.
//
// 1. The first failure stays, and is the same on all ranks that can hear rank
//    0: a rank's own failure is reported, and what rank 0 answers counts.
// 2. wake_fd() is readable from the first failure on, for ever.
class GroupMembership {
 public:
  struct Options {
    v1::JoinHello hello;
    // Of every rank, for messages.
    std::vector<std::string> endpoints;
    absl::Duration join_timeout;
    absl::Duration heartbeat_timeout;
    // Of the stream's metadata; empty: none.
    std::string token;
  };

  // Returns when all ranks have come. Errors as JoinGroup. `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<GroupMembership>> Join(
      Options options, std::shared_ptr<grpc::Channel> channel,
      const Clock& clock);
  // Without Leave: tells the others that this rank has failed.
  ~GroupMembership();

  GroupMembership(const GroupMembership&) = delete;
  GroupMembership& operator=(const GroupMembership&) = delete;

  // Of every rank, and what connections between ranks begin with.
  const std::vector<std::string>& addresses() const { return addresses_; }
  const std::string& secret() const { return secret_; }

  // "rank 2 (10.0.0.3:6170)".
  std::string NameOf(int rank) const;
  // The first failure.
  absl::Status status() const;
  int wake_fd() const { return wake_fd_; }

  // An operation of a communicator begins; returns its number, from 1.
  uint64_t BeginOperation(uint32_t communicator);

  // This rank cannot go on: tells all, and returns the group's first failure.
  // `communicator` and `operation`: of one whose time is over, else 0.
  absl::Status Fail(const absl::Status& status, uint32_t communicator = 0,
                    uint64_t operation = 0);
  // The connection to `peer` broke. Waits to hear who died first, for it need
  // not be the peer; at most `heartbeat_timeout` and a little.
  absl::Status FailBroken(int peer, const absl::Status& broken);

  // Communicator::Leave.
  absl::Status Leave(absl::Duration timeout);

 private:
  using Stream = grpc::ClientReaderWriter<v1::MemberMessage, v1::GroupMessage>;

  GroupMembership(Options options, std::shared_ptr<grpc::Channel> channel,
                  int wake_fd, const Clock& clock);

  // The reader: streams until one is welcomed and ends.
  void Run();
  absl::Status RunStream();
  // Not OK: the stream ends.
  absl::Status OnMessage(const v1::GroupMessage& message);
  void OnStreamEnd(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The other thread.
  void HeartbeatLoop();
  void CountMissedHeartbeats() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status JoinTimeout() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const v1::MemberMessage& message);
  void SetFailure(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cancel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasJoinedOrFailed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return joined_ || !failure_.ok();
  }

  const Options options_;
  const Clock& clock_;
  const absl::Duration tick_;
  const std::unique_ptr<v1::RendezvousService::Stub> stub_;
  const int wake_fd_;
  const int rank_;
  // Constant after Join.
  std::vector<std::string> addresses_;
  std::string secret_;

  // Guards the stream's writing end; taken before mutex_.
  absl::Mutex write_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  // Null before its hello.
  Stream* writable_ ABSL_GUARDED_BY(write_mutex_) = nullptr;

  mutable absl::Mutex mutex_;
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Leave was called.
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // Of the stream that is open.
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Something came over it.
  bool heard_ ABSL_GUARDED_BY(mutex_) = false;
  int missed_heartbeats_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time join_deadline_ ABSL_GUARDED_BY(mutex_);
  // As rank 0 said last.
  std::vector<uint32_t> missing_ ABSL_GUARDED_BY(mutex_);
  // Why the last stream ended.
  std::string last_end_ ABSL_GUARDED_BY(mutex_);
  std::set<int> left_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> operations_ ABSL_GUARDED_BY(mutex_);

  std::thread reader_;
  std::thread heartbeat_;
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_GROUP_MEMBERSHIP_H_
