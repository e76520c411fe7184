#include "pserver/rpc/call_queues.h"

#include "base/check.h"

namespace oarlock::pserver {

void CallQueues::AddTo(grpc::ServerBuilder* builder) {
  OARLOCK_CHECK(queues_.empty());
  for (int i = 0; i < num_threads_; ++i) {
    queues_.push_back(builder->AddCompletionQueue());
  }
}

void CallQueues::Start(const std::vector<Acceptor>& acceptors) {
  OARLOCK_CHECK(threads_.empty());
  for (const auto& queue : queues_) {
    for (const Acceptor& accept : acceptors) accept(queue.get());
    threads_.emplace_back([queue = queue.get()] { Poll(queue); });
  }
}

void CallQueues::Shutdown() {
  const bool closed = gate_->Close([this] {
    for (const auto& queue : queues_) queue->Shutdown();
  });
  if (!closed) return;
  for (std::thread& thread : threads_) thread.join();
  // Without threads, tags that are left are drained here: gRPC requires it.
  if (threads_.empty()) {
    for (const auto& queue : queues_) Poll(queue.get());
  }
}

void CallQueues::Poll(grpc::ServerCompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<QueueTag*>(tag)->OnEvent(ok);
}

}  // namespace oarlock::pserver
