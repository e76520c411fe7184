// The codec's fuzz target on damaged messages made from seeds.

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "tests/fuzz/replay.h"
#include "tests/wire/codec_oracle.h"

namespace oarlock {
namespace {

// A message of any kind, in a usual or unusual encoding.
std::string Undamaged(wire::MessageKind kind, RandomSequence* r) {
  const size_t size = r->Below(40);
  if (r->Below(2) == 0) return wire::RandomBytes(kind, size, r);
  switch (kind) {
    case wire::MessageKind::kPullSparseRequest:
      return wire::EncodeUnusually(wire::RandomPullSparseRequest(size, r), r);
    case wire::MessageKind::kPullSparseResponse:
      return wire::EncodeUnusually(wire::RandomPullSparseResponse(size, r), r);
    case wire::MessageKind::kPushSparseRequest:
      return wire::EncodeUnusually(wire::RandomPushSparseRequest(size, r), r);
    case wire::MessageKind::kPullDenseRequest:
      return wire::EncodeUnusually(wire::RandomPullDenseRequest(size, r), r);
    case wire::MessageKind::kDenseResponse:
      return wire::EncodeUnusually(wire::RandomDenseResponse(size, r), r);
    case wire::MessageKind::kPushDenseRequest:
      return wire::EncodeUnusually(wire::RandomPushDenseRequest(size, r), r);
    case wire::MessageKind::kPushResponse:
      return wire::EncodeUnusually(wire::RandomPushResponse(r), r);
  }
  return "";
}

TEST(CodecReplayTest, DecodersNeverDisagreeWithGeneratedCode) {
  RunOnSeeds(30000, [](uint64_t seed) {
    RandomSequence r(seed);
    const uint64_t kind = r.Below(wire::kNumMessageKinds);
    std::string bytes = Undamaged(static_cast<wire::MessageKind>(kind), &r);
    for (uint64_t n = r.Below(4); n > 0; --n) bytes = wire::Damage(bytes, &r);
    const char prefix[2] = {static_cast<char>(kind),
                            static_cast<char>(r.Below(3) * r.Below(100))};
    return std::string(prefix, 2) + bytes;
  });
}

}  // namespace
}  // namespace oarlock
