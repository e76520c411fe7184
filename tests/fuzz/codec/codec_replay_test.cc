// Runs the codec's fuzz target without a fuzzer: on damaged messages made from
// seeds, and on the files named on the command line (a corpus, a crash).
// OARLOCK_FUZZ_INPUTS sets how many inputs are made.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/proto/codec_oracle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace oarlock {
namespace {

std::vector<std::string>* files = new std::vector<std::string>;

void RunOn(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

// A message of any kind, in a usual or unusual encoding.
std::string Undamaged(MessageKind kind, RandomSequence* r) {
  const size_t size = r->Below(40);
  if (r->Below(2) == 0) return RandomBytes(kind, size, r);
  switch (kind) {
    case MessageKind::kPullSparseRequest:
      return EncodeUnusually(RandomPullSparseRequest(size, r), r);
    case MessageKind::kPullSparseResponse:
      return EncodeUnusually(RandomPullSparseResponse(size, r), r);
    case MessageKind::kPushSparseRequest:
      return EncodeUnusually(RandomPushSparseRequest(size, r), r);
    case MessageKind::kPullDenseRequest:
      return EncodeUnusually(RandomPullDenseRequest(size, r), r);
    case MessageKind::kDenseResponse:
      return EncodeUnusually(RandomDenseResponse(size, r), r);
    case MessageKind::kPushDenseRequest:
      return EncodeUnusually(RandomPushDenseRequest(size, r), r);
    case MessageKind::kPushResponse:
      return EncodeUnusually(RandomPushResponse(r), r);
  }
  return "";
}

TEST(CodecReplayTest, DecodersNeverDisagreeWithGeneratedCode) {
  const char* wanted = std::getenv("OARLOCK_FUZZ_INPUTS");
  const uint64_t num_inputs = wanted == nullptr ? 30000 : std::atoll(wanted);
  for (uint64_t seed = 0; seed < num_inputs; ++seed) {
    // An abort leaves this as the last line.
    if (seed % 10000 == 0) std::cerr << "seeds from " << seed << "\n";
    RandomSequence r(seed);
    const uint64_t kind = r.Below(kNumMessageKinds);
    std::string bytes = Undamaged(static_cast<MessageKind>(kind), &r);
    for (uint64_t n = r.Below(4); n > 0; --n) bytes = Damage(bytes, &r);
    const char prefix[2] = {static_cast<char>(kind),
                            static_cast<char>(r.Below(3) * r.Below(100))};
    RunOn(std::string(prefix, 2) + bytes);
  }
}

TEST(CodecReplayTest, FilesOfACorpusPass) {
  for (const std::string& path : *files) {
    std::cerr << path << "\n";
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    RunOn(std::string(std::istreambuf_iterator<char>(file), {}));
  }
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) oarlock::files->push_back(argv[i]);
  return RUN_ALL_TESTS();
}
