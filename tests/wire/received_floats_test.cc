#include "wire/received_floats.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/random.h"
#include "wire/value_format.h"

namespace oarlock::wire {
namespace {

constexpr v1::ValueFormat kFormats[] = {v1::FLOAT32, v1::BFLOAT16, v1::FLOAT16};

// Floats that every format holds exactly.
std::vector<float> ExactFloats(size_t count, RandomSequence* r) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = (static_cast<float>(r->Below(256)) - 128) / 64;
  }
  return values;
}

std::string Encoded(v1::ValueFormat format, const std::vector<float>& values) {
  std::string bytes(values.size() * ValueBytes(format), 0);
  if (format == v1::FLOAT32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    std::vector<uint16_t> narrow(values.size());
    NarrowValues(format, values, absl::MakeSpan(narrow));
    std::memcpy(bytes.data(), narrow.data(), bytes.size());
  }
  return bytes;
}

// `bytes` in slices of up to `max_slice_bytes`, behind a few others, so that
// values straddle slices and lie at odd addresses.
SlicedBytes Received(const std::string& bytes, size_t max_slice_bytes,
                     RandomSequence* r) {
  const std::string message = std::string(r->Below(5), 'x') + bytes;
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < message.size();) {
    const size_t size =
        std::min<size_t>(message.size() - at, 1 + r->Below(max_slice_bytes));
    slices.emplace_back(message.data() + at, size);
    at += size;
  }
  return SlicedBytes(slices, message.size() - bytes.size(), bytes.size());
}

TEST(ReceivedFloatsTest, AValueThatIsNotFiniteIsFoundWhereverItLies) {
  constexpr uint64_t kSeed = 2;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence r(kSeed);
  for (int round = 0; round < 600; ++round) {
    const v1::ValueFormat format = kFormats[round % 3];
    std::vector<float> values = ExactFloats(r.Below(3000), &r);
    const size_t max_slice = 1 + r.Below(round % 2 == 0 ? 9 : 5000);
    const ReceivedFloats sound(Received(Encoded(format, values), max_slice, &r),
                               format);
    ASSERT_TRUE(sound.AllFinite()) << round;
    if (values.empty()) continue;
    values[r.Below(values.size())] =
        round % 4 < 2 ? std::numeric_limits<float>::quiet_NaN()
                      : -std::numeric_limits<float>::infinity();
    const ReceivedFloats spoilt(
        Received(Encoded(format, values), max_slice, &r), format);
    ASSERT_FALSE(spoilt.AllFinite()) << round;
  }
}

TEST(ReceivedFloatsTest, EveryPartOfEveryFormatIsWhatWasSent) {
  constexpr uint64_t kSeed = 1;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence r(kSeed);
  for (int round = 0; round < 600; ++round) {
    const v1::ValueFormat format = kFormats[round % 3];
    // Beyond what is widened at once, too.
    const std::vector<float> values = ExactFloats(r.Below(12'000), &r);
    const size_t max_slice_bytes = r.Below(2) == 0 ? 7 : 20'000;
    const ReceivedFloats received(
        Received(Encoded(format, values), max_slice_bytes, &r), format);
    ASSERT_EQ(received.size(), values.size());
    ASSERT_EQ(received.empty(), values.empty());
    const size_t begin = r.Below(values.size() + 1);
    const size_t count = r.Below(values.size() - begin + 1);
    const std::vector<float> expected(values.begin() + begin,
                                      values.begin() + begin + count);
    std::vector<float> copy(count + 1, 99);
    received.CopyTo(begin, count, copy.data());
    ASSERT_EQ(copy.back(), 99);
    copy.pop_back();
    ASSERT_EQ(copy, expected);
    std::vector<float> scratch;
    const float* elements = received.Elements(begin, count, &scratch);
    ASSERT_EQ(std::vector<float>(elements, elements + count), expected);
  }
}

TEST(ReceivedFloatsTest, FloatsThatLieWellStayInPlace) {
  const std::vector<float> values(1000, .5f);
  const grpc::Slice slice(values.data(), values.size() * sizeof(float),
                          grpc::Slice::STATIC_SLICE);
  const ReceivedFloats received(SlicedBytes({slice}));
  std::vector<float> scratch;
  EXPECT_EQ(received.Elements(3, 10, &scratch), values.data() + 3);
  EXPECT_TRUE(scratch.empty());
}

TEST(ReceivedFloatsTest, NothingIsEmpty) {
  const ReceivedFloats none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0u);
  none.CopyTo(0, 0, nullptr);
}

}  // namespace
}  // namespace oarlock::wire
