// The fuzz target of the image readers on mutations of well-formed files, made
// from seeds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/data/images/image_bytes.h"
#include "tests/data/reader/compressing.h"
#include "tests/fuzz/replay.h"

namespace oarlock {
namespace {

std::vector<uint8_t> RandomPixels(RandomSequence& random, size_t size) {
  std::vector<uint8_t> pixels(size);
  for (uint8_t& x : pixels) x = static_cast<uint8_t>(random());
  return pixels;
}

std::string RandomText(RandomSequence& random, size_t size) {
  const std::vector<uint8_t> pixels = RandomPixels(random, size);
  return std::string(pixels.begin(), pixels.end());
}

// A file of the format that the target takes `choice` for.
std::string WellFormed(RandomSequence& random, uint64_t choice) {
  const uint32_t height = 1 + static_cast<uint32_t>(random.Below(8));
  const uint32_t width = 1 + static_cast<uint32_t>(random.Below(8));
  const uint32_t count = 1 + static_cast<uint32_t>(random.Below(3));
  switch (choice) {
    case 0:
      return data::IdxImageFile(count, height, width,
                                RandomText(random, count * height * width));
    case 1:
      return data::IdxLabelFile(RandomText(random, count));
    case 2:
    case 3: {
      std::string records;
      for (uint32_t i = 0; i < count; ++i) {
        if (choice == 3) records += '\x02';
        records += static_cast<char>(random.Below(10));
        records += RandomText(random, 3072);
      }
      return records;
    }
    case 4:
    case 5:
      return data::JpegFile(height, width, 3,
                            RandomPixels(random, 3 * height * width));
    default:
      return data::PngFile(height, width, 1,
                           RandomPixels(random, height * width));
  }
}

// Changes, removes or repeats a few bytes, half of the time near the front,
// where headers are.
void Mutate(RandomSequence& random, std::string* bytes) {
  for (uint64_t n = random.Below(4); n > 0 && !bytes->empty(); --n) {
    const size_t reach = random.Below(2) == 0
                             ? std::min<size_t>(bytes->size(), 24)
                             : bytes->size();
    const size_t at = random.Below(reach);
    switch (random.Below(5)) {
      case 0:
        (*bytes)[at] = static_cast<char>(random());
        break;
      case 1:
        (*bytes)[at] ^= static_cast<char>(1 << random.Below(8));
        break;
      case 2:
        bytes->erase(at, 1 + random.Below(20));
        break;
      case 3:
        bytes->insert(at, bytes->substr(at, random.Below(30)));
        break;
      default:
        bytes->resize(at);
    }
  }
}

TEST(ImagesReplayTest, RandomFilesAreReadOrRefused) {
  RunOnSeeds(20000, [](uint64_t seed) {
    RandomSequence random(seed);
    const uint64_t choice = random.Below(8);
    const uint64_t compression = random.Below(6) == 0 ? 1 + random.Below(2) : 0;
    std::string bytes = WellFormed(random, choice);
    // Inside, outside, or both: compression checks what it holds.
    if (random.Below(2) == 0) Mutate(random, &bytes);
    if (compression == 1) bytes = data::Gzip(bytes);
    if (compression == 2) bytes = data::Xz(bytes);
    if (random.Below(2) == 0) Mutate(random, &bytes);
    return std::string(1, static_cast<char>(choice | compression << 3)) + bytes;
  });
}

}  // namespace
}  // namespace oarlock
