#include "base/process/crash_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

namespace oarlock {

// What is to be found in the stack; not in the anonymous namespace, so that
// the compiler keeps it.
[[gnu::noinline]] void WriteWhereNothingIs() {
  const long page = sysconf(_SC_PAGESIZE);
  void* const nothing =
      mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<volatile int*>(nothing) = 1;
}
[[gnu::noinline]] void SendItself(int signal) {
  raise(signal);
  // Not the last thing here, so that this frame stays.
  asm volatile("");
}
[[gnu::noinline]] int CallItself(int depth) {
  if (depth < 0) return 0;
  volatile char room[1024];
  room[0] = static_cast<char>(depth);
  return CallItself(depth + 1) + room[0];
}

namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;
using ::testing::Not;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

TEST(CrashHandlerDeathTest, ASanitizerTellsOfItsCrashesItself) {
  EXPECT_DEATH(
      {
        InstallCrashHandler();
        WriteWhereNothingIs();
      },
      "Sanitizer");
}

#else

TEST(CrashHandlerDeathTest, ABadWriteIsReportedWithItsPlace) {
  EXPECT_EXIT(
      {
        InstallCrashHandler();
        WriteWhereNothingIs();
      },
      KilledBySignal(SIGSEGV),
      AllOf(ContainsRegex("crashed by SIGSEGV at address 0x[0-9a-f]+000, in "
                          "thread [0-9]+; its stack:\n"
                          "  #0  oarlock::WriteWhereNothingIs\\(\\)  "
                          "[a-z_]+(.so)?\\+0x[0-9a-f]+\n"),
            HasSubstr("  main  ")));
}

TEST(CrashHandlerDeathTest, EachSignalIsReportedAndEndsTheProcess) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) {
    EXPECT_EXIT(
        {
          InstallCrashHandler();
          InstallCrashHandler();
          SendItself(signal);
        },
        KilledBySignal(signal),
        AllOf(ContainsRegex("crashed by SIG[A-Z]+ that process [0-9]+ sent"),
              HasSubstr("  oarlock::SendItself()  ")))
        << signal;
  }
}

TEST(CrashHandlerDeathTest, AnAbortIsReportedThroughTheLibraryThatRaisedIt) {
  EXPECT_EXIT(
      {
        InstallCrashHandler();
        std::abort();
      },
      KilledBySignal(SIGABRT),
      AllOf(ContainsRegex("libc.so[.0-9]*\\+0x"), HasSubstr("  main  ")));
}

TEST(CrashHandlerDeathTest, AnotherThreadIsTold) {
  EXPECT_EXIT(
      {
        InstallCrashHandler();
        std::thread(WriteWhereNothingIs).join();
      },
      KilledBySignal(SIGSEGV), HasSubstr("  oarlock::WriteWhereNothingIs()  "));
}

TEST(CrashHandlerDeathTest, AStackThatOverflowsIsReported) {
  EXPECT_EXIT(
      {
        InstallCrashHandler();
        std::exit(CallItself(0));
      },
      KilledBySignal(SIGSEGV), HasSubstr("  oarlock::CallItself()  "));
}

TEST(CrashHandlerDeathTest, ThreadsThatCrashTogetherLeaveOneStack) {
  constexpr int kNumThreads = 8;
  EXPECT_EXIT(
      {
        InstallCrashHandler();
        std::atomic<int> num_ready = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < kNumThreads; ++i) {
          threads.emplace_back([&] {
            ++num_ready;
            while (num_ready < kNumThreads) std::this_thread::yield();
            WriteWhereNothingIs();
          });
        }
        for (std::thread& thread : threads) thread.join();
      },
      KilledBySignal(SIGSEGV),
      AllOf(HasSubstr("  oarlock::WriteWhereNothingIs()  "),
            Not(ContainsRegex("its stack:(.|\n)*its stack:"))));
}

TEST(CrashHandlerDeathTest, AStopIsNoCrash) {
  EXPECT_EXIT(
      {
        InstallCrashHandler();
        SendItself(SIGTERM);
      },
      KilledBySignal(SIGTERM), Not(HasSubstr("its stack")));
}

#endif

}  // namespace
}  // namespace oarlock
