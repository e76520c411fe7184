// Reports of tsan that are false although absl::Mutex is seen. "race:" matches
// any frame of a stack, so each names the one function that the report is of.

#if defined(__SANITIZE_THREAD__)

extern "C" const char* __tsan_default_suppressions() {
  // gRPC hands a call from the thread that began it to the one that waits for
  // it through a queue with a spinlock of its own, which is not instrumented;
  // this function of its headers, which is, reads what the other thread wrote.
  return "race:^grpc::internal::CallOpSet<*>::FinalizeResult\n";
}

#endif
