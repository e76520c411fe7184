// The completion queues of a gRPC server, with one thread each. They serve
// every service of the server.
//
// In gRPC any thread that waits for something may be the one that reads the
// sockets. It then hands what it read to the queue to which that belongs. Other
// kinds of threads are those of gRPC's synchronous and callback services, such
// as its own health and reflection services. Pulls and pushes would wake these
// too, only to wake another thread: three wake-ups a call instead of one.

#ifndef OARLOCK_PSERVER_RPC_CALL_QUEUES_H_
#define OARLOCK_PSERVER_RPC_CALL_QUEUES_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace oarlock::pserver {

// What waits in a completion queue.
class QueueTag {
 public:
  virtual ~QueueTag() = default;
  // Called by the queue's thread when what was waited for has happened, or
  // will not happen (not ok). It may delete the tag, or let it wait again.
  virtual void OnEvent(bool ok) = 0;
};

// Whether the queues may still be given something to wait for: gRPC forbids it
// once they shut down. All calls share it, since some are held for longer than
// the server lives. Thread-safe.
class QueueGate {
 public:
  // Calls `use`, which may hand tags to gRPC; does not, and returns false, when
  // the queues are shutting down.
  template <typename Use>
  bool WhileOpen(Use&& use) {
    absl::ReaderMutexLock lock(&mutex_);
    if (open_) std::forward<Use>(use)();
    return open_;
  }
  // Waits for the threads that are inside WhileOpen, then calls `shut_down`.
  // False: it was closed before.
  template <typename ShutDown>
  bool Close(ShutDown&& shut_down) {
    absl::MutexLock lock(&mutex_);
    if (!open_) return false;
    open_ = false;
    std::forward<ShutDown>(shut_down)();
    return true;
  }

 private:
  absl::Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
};

// Life: construct; AddTo before the gRPC server is built; Start after. To end:
// answer all calls that are held, grpc::Server::Shutdown, then Shutdown here.
class CallQueues {
 public:
  // Makes a queue ready to take calls of a service.
  using Acceptor = std::function<void(grpc::ServerCompletionQueue*)>;

  explicit CallQueues(int num_threads) : num_threads_(num_threads) {}
  // Shuts down if that was not done.
  ~CallQueues() { Shutdown(); }

  CallQueues(const CallQueues&) = delete;
  CallQueues& operator=(const CallQueues&) = delete;

  // Call once.
  void AddTo(grpc::ServerBuilder* builder);
  // Lets every acceptor prepare every queue, then starts the threads. Call
  // once.
  void Start(const std::vector<Acceptor>& acceptors);
  // Ends the threads when the last tag is gone. Later answers are dropped.
  // Idempotent.
  void Shutdown();

  const std::shared_ptr<QueueGate>& gate() const { return gate_; }

 private:
  static void Poll(grpc::ServerCompletionQueue* queue);

  const int num_threads_;
  const std::shared_ptr<QueueGate> gate_ = std::make_shared<QueueGate>();
  // Written before the threads start.
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::thread> threads_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_RPC_CALL_QUEUES_H_
