// The fuzz target of the data readers on mutations of well-formed lines, made
// from seeds.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/data/reader/compressing.h"
#include "tests/fuzz/replay.h"

namespace oarlock {
namespace {

std::string WellFormed(RandomSequence& random, bool multi_slot, bool libsvm,
                       bool no_dense = false) {
  if (libsvm) {
    return random.Below(4) == 0
               ? " # a comment 1:1\n"
               : "-1 qid:3 1:0.5 18446744073709551615:-1e-3 4:1 # 5:x\n";
  }
  if (multi_slot) {
    return absl::StrCat(no_dense ? "" : "2 0.5 -1e3 ",
                        "1 7 2 18446744073709551615 9 0 1 1\n");
  }
  std::string line = random.Below(2) == 0 ? "0" : "1";
  for (int i = 0; i < 13; ++i) {
    line += "\t";
    if (random.Below(3) != 0) line += std::to_string(random.Below(5000));
  }
  for (int i = 0; i < 26; ++i) {
    line += "\t";
    if (random.Below(4) != 0)
      line += std::string("68fd1e64", 1 + random.Below(8));
  }
  return line + "\n";
}

// Changes, inserts, removes or repeats a few bytes.
void Mutate(RandomSequence& random, std::string* text) {
  constexpr std::string_view kLikely("\t\n\r\0 -0189.eEnaixf\xff", 19);
  for (uint64_t n = random.Below(5); n > 0; --n) {
    const size_t at = 1 + random.Below(text->size());
    const char c = random.Below(3) == 0 ? static_cast<char>(random())
                                        : kLikely[random.Below(kLikely.size())];
    switch (random.Below(4)) {
      case 0:
        if (at < text->size()) (*text)[at] = c;
        break;
      case 1:
        text->insert(at, 1, c);
        break;
      case 2:
        text->erase(at, random.Below(10));
        break;
      default:
        text->insert(at, text->substr(at, random.Below(30)));
    }
  }
}

TEST(DataReplayTest, RandomLinesAreReadOrRefused) {
  RunOnSeeds(50000, [](uint64_t seed) {
    RandomSequence random(seed);
    const uint64_t choice = random.Below(8);
    const uint64_t with_reader = random.Below(50) == 0 ? 8 : 0;
    const uint64_t libsvm = random.Below(3) == 0 ? 16 : 0;
    const uint64_t no_dense = random.Below(2) == 0 ? 64 : 0;
    std::string input(
        1, static_cast<char>(choice | with_reader | libsvm | no_dense));
    for (uint64_t n = random.Below(4); n > 0; --n) {
      input += WellFormed(random, choice / 2 == 3, libsvm != 0, no_dense != 0);
    }
    Mutate(random, &input);
    return input;
  });
}

TEST(DataReplayTest, DamagedZstdIsReadUpToItsDamageOrRefused) {
  RunOnSeeds(1000, [](uint64_t seed) {
    RandomSequence random(seed);
    std::string text;
    for (uint64_t n = random.Below(40); n > 0; --n) {
      text += WellFormed(random, false, true);
    }
    std::string input(1, static_cast<char>(16 | 32));
    input += data::Zstd(text);
    if (random.Below(3) == 0) input += data::Zstd(text);
    Mutate(random, &input);
    return input;
  });
}

}  // namespace
}  // namespace oarlock
