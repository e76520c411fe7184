// The codec's fuzz target on damaged messages made from seeds.

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "tests/fuzz/replay.h"
#include "tests/wire/codec_oracle.h"

namespace oarlock {
namespace {

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
  RunOnSeeds(30000, [](uint64_t seed) {
    RandomSequence r(seed);
    const uint64_t kind = r.Below(kNumMessageKinds);
    std::string bytes = Undamaged(static_cast<MessageKind>(kind), &r);
    for (uint64_t n = r.Below(4); n > 0; --n) bytes = Damage(bytes, &r);
    const char prefix[2] = {static_cast<char>(kind),
                            static_cast<char>(r.Below(3) * r.Below(100))};
    return std::string(prefix, 2) + bytes;
  });
}

}  // namespace
}  // namespace oarlock
