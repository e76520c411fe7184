#include "wire/sliced_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"

namespace oarlock::wire {
namespace {

std::vector<grpc::Slice> Cut(const std::string& bytes, size_t max_slice_bytes,
                             RandomSequence* r) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    if (r->Below(4) == 0) slices.emplace_back();
    const size_t size =
        std::min<size_t>(bytes.size() - at, 1 + r->Below(max_slice_bytes));
    slices.emplace_back(bytes.data() + at, size);
    at += size;
  }
  return slices;
}

TEST(SlicedBytesTest, EveryRunReadsAsTheSameRunOfAString) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSequence r(seed);
    std::string bytes(1 + r.Below(500), '\0');
    for (char& c : bytes) c = static_cast<char>(r());
    const std::vector<grpc::Slice> slices = Cut(bytes, 1 + r.Below(60), &r);
    const size_t begin = r.Below(bytes.size() + 1);
    const size_t size = r.Below(bytes.size() - begin + 1);
    const SlicedBytes run(slices, begin, size);
    ASSERT_EQ(run.size(), size);
    ASSERT_EQ(run.empty(), size == 0);
    for (int i = 0; i < 20; ++i) {
      const size_t at = r.Below(size + 1);
      const size_t count = r.Below(size - at + 1);
      const std::string expected = bytes.substr(begin + at, count);
      std::string copy(count, '\0');
      run.CopyTo(at, count, copy.data());
      ASSERT_EQ(copy, expected);
      std::string scratch;
      ASSERT_EQ(run.View(at, count, &scratch), expected);
      ASSERT_EQ(run.Part(at, count).View(0, count, &scratch), expected);
      std::vector<uint16_t> elements;
      const size_t num_elements = (size - at) / 2;
      // Elements are counted from the run's begin.
      const SlicedBytes odd = run.Part(at, num_elements * 2);
      const uint16_t* values =
          odd.Elements<uint16_t>(0, num_elements, &elements);
      ASSERT_EQ(
          std::string(reinterpret_cast<const char*>(values), num_elements * 2),
          bytes.substr(begin + at, num_elements * 2));
    }
  }
}

TEST(SlicedBytesTest, ElementsAreAligned) {
  alignas(8) static char memory[65] = {};
  for (size_t offset = 0; offset < 8; ++offset) {
    const grpc::Slice slice(memory + offset, 56, grpc::Slice::STATIC_SLICE);
    const SlicedBytes run(std::vector<grpc::Slice>{slice});
    std::vector<uint64_t> scratch;
    const uint64_t* elements = run.Elements<uint64_t>(1, 6, &scratch);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(elements) % 8, 0u);
    EXPECT_EQ(reinterpret_cast<const char*>(elements) == memory + 8,
              offset == 0);
  }
}

TEST(SlicedBytesTest, CopiesOfShortSlicesOutliveTheFirst) {
  // Slices this short lie inside the Slice object itself.
  SlicedBytes copy;
  {
    const SlicedBytes first(
        std::vector<grpc::Slice>{grpc::Slice("abc", 3), grpc::Slice("def", 3)});
    copy = first.Part(1, 4);
  }
  std::string scratch;
  EXPECT_EQ(copy.View(0, 4, &scratch), "bcde");
}

TEST(SlicedBytesTest, OwnedBytesAndNoBytesWork) {
  std::string scratch;
  const SlicedBytes owned(std::vector<char>{'x', 'y'});
  EXPECT_EQ(owned.View(1, 1, &scratch), "y");
  const SlicedBytes none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.Part(0, 0).size(), 0u);
  std::vector<uint64_t> elements;
  EXPECT_NE(none.Elements<uint64_t>(0, 0, &elements), nullptr);
}

TEST(SlicedBytesDeathTest, BytesThatDoNotExistCrash) {
  const SlicedBytes two(std::vector<char>{'x', 'y'});
  char byte;
  EXPECT_DEATH(two.CopyTo(1, 2, &byte), "invariant broken");
  EXPECT_DEATH(two.Part(3, 0), "invariant broken");
  EXPECT_DEATH(two.Part(1, ~size_t{0}), "invariant broken");
}

}  // namespace
}  // namespace oarlock::wire
