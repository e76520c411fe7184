#include "base/process/malloc.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <memory>

namespace oarlock {
namespace {

// Page faults of allocating, filling and freeing a message's buffer often.
long FaultsOfManyBuffers() {
  constexpr size_t kBufferBytes = 3 << 20;
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 100; ++i) {
    const auto buffer = std::make_unique<char[]>(kBufferBytes);
    std::memset(buffer.get(), i, kBufferBytes);
    asm volatile("" : : "r"(buffer.get()) : "memory");
  }
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(MallocTest, BuffersAreNotFaultedInAgain) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "another allocator is in use";
#endif
  KeepFreedMemory();
  // The first time the memory comes from the system.
  FaultsOfManyBuffers();
  // 100 buffers have 76,800 pages.
  EXPECT_LT(FaultsOfManyBuffers(), 1000);
}

}  // namespace
}  // namespace oarlock
