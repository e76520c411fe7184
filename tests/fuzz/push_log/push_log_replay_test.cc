// The fuzz target of the push log's reader on logs made from seeds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/random.h"
#include "tests/fuzz/replay.h"

namespace oarlock {
namespace {

// Segments whose headers the target makes sound, most of them whole.
std::string RandomLog(uint64_t seed) {
  RandomSequence random(seed);
  std::string input;
  input.push_back(random.Below(8) == 0 ? '\2' : '\3');
  const uint64_t num_segments = 1 + random.Below(3);
  for (uint64_t s = 0; s < num_segments; ++s) {
    std::string segment(32, '\0');
    const uint64_t num_records = random.Below(5);
    for (uint64_t r = 0; r < num_records; ++r) {
      std::string head(48, '\0');
      const uint64_t size = random.Below(60);
      head[4] = static_cast<char>(random.Below(4));
      head[8] = static_cast<char>(random.Below(4));
      // What was written before it, at most.
      head[16] = static_cast<char>(
          random.Below(std::min<size_t>(segment.size(), 255)));
      head[24] = static_cast<char>(size);
      if (random.Below(16) == 0) head[40] = 'x';
      segment += head + std::string(size, 'b');
    }
    if (random.Below(6) == 0) {
      segment.resize(random.Below(segment.size() + 1));
    }
    input.push_back(static_cast<char>(segment.size() & 255));
    input.push_back(static_cast<char>(segment.size() >> 8));
    input += segment;
  }
  return input;
}

TEST(PushLogReplayTest, LogsFromSeeds) {
  EXPECT_GT(RunOnSeeds(3000, RandomLog), 0u);
}

TEST(PushLogReplayTest, BytesFromSeeds) {
  EXPECT_GT(RunOnSeeds(1000,
                       [](uint64_t seed) {
                         RandomSequence random(seed);
                         std::string input(random.Below(300), '\0');
                         for (char& c : input) {
                           c = static_cast<char>(random.Below(256));
                         }
                         return input;
                       }),
            0u);
}

}  // namespace
}  // namespace oarlock
