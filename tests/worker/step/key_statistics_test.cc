#include "worker/step/key_statistics.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::worker {
namespace {

TEST(KeyStatisticsTest, CountsAreThoseOfANaiveLoop) {
  const uint64_t seed = 12;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  KeyStatistics statistics;
  for (int repeat = 0; repeat < 50; ++repeat) {
    const size_t num_rows = 1 + random.Below(40);
    const size_t num_slots = 1 + random.Below(5);
    const bool single = random.Below(2) == 0;
    std::vector<uint32_t> row_of_key;
    std::vector<uint32_t> offsets;
    if (!single) offsets.push_back(0);
    std::vector<float> labels(random.Below(30));
    std::vector<float> shows(num_rows);
    std::vector<float> clicks(num_rows);
    for (float& label : labels) {
      label = static_cast<float>(random.Below(2));
      std::set<uint32_t> rows;
      for (size_t s = 0; s < num_slots; ++s) {
        const uint64_t num_keys = single ? 1 : random.Below(4);
        for (uint64_t k = 0; k < num_keys; ++k) {
          row_of_key.push_back(static_cast<uint32_t>(random.Below(num_rows)));
          rows.insert(row_of_key.back());
        }
        if (!single) {
          offsets.push_back(static_cast<uint32_t>(row_of_key.size()));
        }
      }
      for (const uint32_t row : rows) {
        shows[row] += 1;
        clicks[row] += label;
      }
    }
    statistics.Count(row_of_key, num_rows, offsets, num_slots, labels);
    ASSERT_EQ(statistics.shows(), shows);
    ASSERT_EQ(statistics.clicks(), clicks);
  }
}

}  // namespace
}  // namespace oarlock::worker
