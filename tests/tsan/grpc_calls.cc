// gRPC's callback API counts what is under way of a call by atomics of its
// library, which tsan does not see. Whoever counts to zero destroys the call;
// a part of the destructor is inlined into our code, and seems to race with the
// operation before it.

#if defined(__SANITIZE_THREAD__)

extern "C" const char* __tsan_default_suppressions() {
  return "race:ServerCallbackReaderWriterImpl\n";
}

#endif
