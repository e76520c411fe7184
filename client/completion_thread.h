// A completion queue and the thread that works on it.

#ifndef OARLOCK_CLIENT_COMPLETION_THREAD_H_
#define OARLOCK_CLIENT_COMPLETION_THREAD_H_

#include <grpcpp/completion_queue.h>

#include <thread>

#include "client/server_connections.h"

namespace oarlock::client {

// All asynchronous calls of a client should share one: with two queues gRPC
// wakes the thread of one to take a response that is the other one's.
class CompletionThread {
 public:
  // What waits on the queue; its address is the tag.
  class Event {
   public:
    virtual ~Event() = default;
    // On the queue's thread; must not block.
    virtual void Run() = 0;
  };

  // `connections` outlives this.
  explicit CompletionThread(const ServerConnections* connections)
      : thread_([this, connections] {
          connections->RunThread([this] { Poll(); });
        }) {}
  // REQUIRES: no event waits.
  ~CompletionThread() {
    queue_.Shutdown();
    thread_.join();
  }

  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  grpc::CompletionQueue* queue() { return &queue_; }

 private:
  void Poll() {
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) static_cast<Event*>(tag)->Run();
  }

  grpc::CompletionQueue queue_;
  std::thread thread_;
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_COMPLETION_THREAD_H_
