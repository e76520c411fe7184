// Debian's gRPC is not instrumented either. What one thread wrote before it
// began an operation, another one may read when a completion queue has given
// it the operation's tag; gRPC orders the two by a queue with a spinlock of its
// own, which tsan does not see. Under tsan this file stands before gRPC's own
// functions, tells tsan, and calls them; in other builds it is empty.

#if defined(__SANITIZE_THREAD__)

#include <grpc/grpc.h>
#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <sanitizer/tsan_interface.h>

#include "tests/tsan/next_definition.h"

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops,
                                      size_t num_ops, void* tag,
                                      void* reserved) {
  static auto* const next =
      oarlock::NextDefinition<decltype(grpc_call_start_batch)>(
          "grpc_call_start_batch");
  __tsan_release(tag);
  return next(call, ops, num_ops, tag, reserved);
}

grpc_call_error grpc_server_request_call(
    grpc_server* server, grpc_call** call, grpc_call_details* details,
    grpc_metadata_array* request_metadata, grpc_completion_queue* bound_to_call,
    grpc_completion_queue* for_notification, void* tag) {
  static auto* const next =
      oarlock::NextDefinition<decltype(grpc_server_request_call)>(
          "grpc_server_request_call");
  __tsan_release(tag);
  return next(server, call, details, request_metadata, bound_to_call,
              for_notification, tag);
}

grpc_call_error grpc_server_request_registered_call(
    grpc_server* server, void* method, grpc_call** call, gpr_timespec* deadline,
    grpc_metadata_array* request_metadata, grpc_byte_buffer** payload,
    grpc_completion_queue* bound_to_call,
    grpc_completion_queue* for_notification, void* tag) {
  static auto* const next =
      oarlock::NextDefinition<decltype(grpc_server_request_registered_call)>(
          "grpc_server_request_registered_call");
  __tsan_release(tag);
  return next(server, method, call, deadline, request_metadata, payload,
              bound_to_call, for_notification, tag);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue,
                                      gpr_timespec deadline, void* reserved) {
  static auto* const next =
      oarlock::NextDefinition<decltype(grpc_completion_queue_next)>(
          "grpc_completion_queue_next");
  const grpc_event event = next(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

}  // extern "C"

// An alarm has a tag of its own below its caller's.
namespace grpc {

void Alarm::SetInternal(CompletionQueue* queue, gpr_timespec deadline,
                        void* tag) {
  static auto* const next = oarlock::NextDefinition<void(
      Alarm*, CompletionQueue*, gpr_timespec, void*)>(
      "_ZN4grpc5Alarm11SetInternalEPNS_15CompletionQueueE12gpr_timespecPv");
  __tsan_release(tag);
  next(this, queue, deadline, tag);
}

CompletionQueue::NextStatus CompletionQueue::AsyncNextInternal(
    void** tag, bool* ok, gpr_timespec deadline) {
  static auto* const next = oarlock::NextDefinition<NextStatus(
      CompletionQueue*, void**, bool*, gpr_timespec)>(
      "_ZN4grpc15CompletionQueue17AsyncNextInternalEPPvPb12gpr_timespec");
  const NextStatus status = next(this, tag, ok, deadline);
  if (status == GOT_EVENT) __tsan_acquire(*tag);
  return status;
}

}  // namespace grpc

#endif
