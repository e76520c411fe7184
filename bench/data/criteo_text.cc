#include "bench/data/criteo_text.h"

#include <cstdint>
#include <cstdio>
#include <random>

namespace oarlock_bench {
namespace {

// Of columns I1 to I13 in the real data: the share that is missing, and the
// largest number of digits of nine tenths of the rest.
constexpr double kMissing[] = {.45,  0,   .21, .22, .03, .22, .04,
                               .001, .04, .45, .04, .77, .22};
constexpr int kDigits[] = {1, 3, 2, 2, 5, 3, 2, 2, 3, 1, 1, 1, 2};
// Columns C1 to C26 that are often missing.
constexpr double kMissingCategory[] = {0,   0,   .03, .03, 0, .12, 0,   0,  0,
                                       0,   0,   .03, 0,   0, 0,   .03, 0,  0,
                                       .44, .44, .03, .76, 0, .03, .44, .44};

}  // namespace

std::string CriteoText(size_t num_lines) {
  std::mt19937_64 random(1);
  const auto share = [&random] {
    return static_cast<double>(random() >> 11) * 0x1p-53;
  };
  std::string text;
  text.reserve(num_lines * 240);
  char field[24];
  for (size_t i = 0; i < num_lines; ++i) {
    text += share() < .256 ? '1' : '0';
    for (int c = 0; c < 13; ++c) {
      text += '\t';
      if (share() < kMissing[c]) continue;
      if (c == 1 && share() < .1) text += '-';
      uint64_t range = 10;
      for (uint64_t d = random() % kDigits[c]; d > 0; --d) range *= 10;
      std::snprintf(field, sizeof field, "%llu",
                    static_cast<unsigned long long>(random() % range));
      text += field;
    }
    for (int c = 0; c < 26; ++c) {
      text += '\t';
      if (share() < kMissingCategory[c]) continue;
      std::snprintf(field, sizeof field, "%08x",
                    static_cast<unsigned>(random()));
      text += field;
    }
    text += '\n';
  }
  return text;
}

}  // namespace oarlock_bench
