#include "sparse_table/rows/page_populator.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"

namespace oarlock::sparse_table {
namespace {

constexpr size_t kBytes = 16 << 20;

class PagePopulatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* mapping = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(mapping, MAP_FAILED);
    base_ = static_cast<std::byte*>(mapping);
  }
  void TearDown() override { munmap(base_, kBytes); }

  // Bytes from the base on that are in memory, as far as there is no gap.
  size_t Resident() const {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> in_memory(kBytes / page);
    EXPECT_EQ(mincore(base_, kBytes, in_memory.data()), 0);
    size_t pages = 0;
    while (pages < in_memory.size() && (in_memory[pages] & 1) != 0) ++pages;
    return pages * page;
  }

  std::byte* base_ = nullptr;
};

TEST_F(PagePopulatorTest, TakesWhatWasAskedForAndNoMore) {
  PagePopulator populator(base_);
  EXPECT_EQ(Resident(), 0u);
  populator.Ask(0, 3 << 20);
  populator.Wait();
  EXPECT_EQ(Resident(), size_t{3 << 20});
  populator.Ask(1 << 20, 2 << 20);
  populator.Ask(3 << 20, 9 << 20);
  populator.Wait();
  EXPECT_EQ(Resident(), size_t{9 << 20});
}

TEST_F(PagePopulatorTest, ChangesNothingThatIsWrittenMeanwhile) {
  PagePopulator populator(base_);
  const uint64_t seed = 7;
  for (size_t begin = 0; begin < kBytes; begin += 1 << 20) {
    populator.Ask(begin, begin + (1 << 20));
    for (size_t i = begin; i < begin + (1 << 20); i += 8) {
      const uint64_t value = RandomUniform(seed, i) > 0.5 ? i : ~i;
      std::memcpy(base_ + i, &value, sizeof(value));
    }
  }
  populator.Wait();
  for (size_t i = 0; i < kBytes; i += 8) {
    uint64_t value;
    std::memcpy(&value, base_ + i, sizeof(value));
    ASSERT_EQ(value, RandomUniform(seed, i) > 0.5 ? i : ~i) << i;
  }
}

TEST_F(PagePopulatorTest, EndsInTheMiddleOfItsWork) {
  PagePopulator populator(base_);
  populator.Ask(0, kBytes);
}

TEST_F(PagePopulatorTest, WhatCannotBeTakenIsLeftAlone) {
  PagePopulator populator(base_);
  // Beyond the mapping, as when the system has no memory.
  ASSERT_EQ(munmap(base_ + kBytes / 2, kBytes / 2), 0);
  populator.Ask(0, kBytes);
  populator.Wait();
  std::memset(base_, 1, kBytes / 2);
}

}  // namespace
}  // namespace oarlock::sparse_table
