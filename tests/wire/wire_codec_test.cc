#include "wire/wire_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/random.h"
#include "tests/wire/codec_oracle.h"
#include "wire/value_format.h"
#include "wire/wire_limits.h"

namespace oarlock::wire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename T>
grpc::Slice SliceOf(const T& values) {
  return grpc::Slice(values.data(), values.size() * sizeof(*values.data()));
}

std::vector<KeyGroup> Groups(
    const google::protobuf::RepeatedField<uint32_t>& partitions,
    const google::protobuf::RepeatedField<uint32_t>& sizes) {
  std::vector<KeyGroup> groups;
  for (int i = 0; i < partitions.size(); ++i) {
    groups.push_back({PartitionIndex(partitions[i]), sizes[i]});
  }
  return groups;
}

std::vector<BlockIndex> Blocks(
    const google::protobuf::RepeatedField<uint32_t>& numbers) {
  std::vector<BlockIndex> blocks;
  for (uint32_t number : numbers) blocks.push_back(BlockIndex(number));
  return blocks;
}

template <typename Message>
grpc::Slice ValuesOf(const Message& m) {
  return m.format() == v1::FLOAT32 ? SliceOf(m.values())
                                   : SliceOf(m.values16());
}

// `m` through our encoder.
grpc::ByteBuffer Encode(const v1::PullSparseRequest& m) {
  return EncodePullSparseRequest(
      m.header(), TableId(m.table()), Groups(m.partitions(), m.group_sizes()),
      m.format(), m.with_statistics(), SliceOf(m.keys()));
}
grpc::ByteBuffer Encode(const v1::PullSparseResponse& m) {
  return EncodePullSparseResponse(
      m.header(), m.dim(),
      absl::MakeConstSpan(m.group_versions().data(), m.group_versions_size()),
      ValuesOf(m), SliceOf(m.shows()), SliceOf(m.clicks()), m.format());
}
grpc::ByteBuffer Encode(const v1::PushSparseRequest& m) {
  return EncodePushSparseRequest(
      m.header(), TableId(m.table()), Groups(m.partitions(), m.group_sizes()),
      SliceOf(m.keys()), ValuesOf(m), SliceOf(m.shows()), SliceOf(m.clicks()),
      absl::MakeConstSpan(m.counts().data(), m.counts_size()), m.format());
}
grpc::ByteBuffer Encode(const v1::PullDenseRequest& m) {
  return EncodePullDenseRequest(
      m.header(), TableId(m.table()), Blocks(m.blocks()),
      absl::MakeConstSpan(m.known_versions().data(), m.known_versions_size()),
      m.format());
}
// The values in several slices.
std::vector<grpc::Slice> Pieces(const grpc::Slice& whole) {
  const size_t cut = whole.size() / 3;
  return {grpc::Slice(whole.begin(), cut), grpc::Slice(),
          grpc::Slice(whole.begin() + cut, whole.size() - cut)};
}
grpc::ByteBuffer Encode(const v1::DenseResponse& m) {
  return EncodeDenseResponse(
      m.header(), Blocks(m.blocks()),
      absl::MakeConstSpan(m.versions().data(), m.versions_size()),
      Pieces(ValuesOf(m)), m.format(), m.duplicate_groups());
}
grpc::ByteBuffer Encode(const v1::PushDenseRequest& m) {
  return EncodePushDenseRequest(
      m.header(), TableId(m.table()), Blocks(m.blocks()), Pieces(ValuesOf(m)),
      m.num_steps(), m.with_values(),
      {m.known_versions().data(), static_cast<size_t>(m.known_versions_size())},
      m.format(), m.response_format());
}
grpc::ByteBuffer Encode(const v1::PushResponse& m) {
  return EncodePushResponse(m);
}

TEST(WireCodecTest, EncodersSendTheBytesOfGeneratedCode) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSequence r(seed);
    const size_t size = seed % 10 == 0 ? 20000 : 100;
    const auto check = [](const auto& message) {
      ASSERT_EQ(Flatten(Encode(message)), message.SerializeAsString())
          << message.ShortDebugString();
    };
    v1::PullSparseRequest pull = RandomPullSparseRequest(size, &r);
    // Reserved: read and not sent.
    pull.clear_held_versions();
    pull.clear_held_generation();
    check(pull);
    check(RandomPullSparseResponse(size, &r));
    check(RandomPushSparseRequest(size, &r));
    check(RandomPullDenseRequest(size, &r));
    check(RandomDenseResponse(size, &r));
    check(RandomPushDenseRequest(size, &r));
    check(RandomPushResponse(&r));
  }
}

TEST(WireCodecTest, EncodersSendTheBytesOfGeneratedCodeForEmptyMessages) {
  v1::PullSparseRequest request;
  request.mutable_header();
  EXPECT_EQ(Flatten(Encode(request)), request.SerializeAsString());
  v1::PushDenseRequest push;
  push.mutable_header();
  EXPECT_EQ(Flatten(Encode(push)), push.SerializeAsString());
}

TEST(WireCodecTest, DecodersReadGeneratedBytesInAnySlicing) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    for (int kind = 0; kind < kNumMessageKinds; ++kind) {
      RandomSequence r(DeriveSeed(seed, kind));
      const std::string bytes = RandomBytes(static_cast<MessageKind>(kind),
                                            seed % 10 == 0 ? 20000 : 60, &r);
      for (size_t max_slice_bytes : {1, 2, 9, 100, 16384, 1 << 30}) {
        ASSERT_EQ(DisagreementWithGeneratedCode(
                      static_cast<MessageKind>(kind),
                      CutIntoSlices(bytes, max_slice_bytes, &r)),
                  "")
            << "seed " << seed << " kind " << kind << " slices up to "
            << max_slice_bytes;
      }
    }
  }
}

TEST(WireCodecTest, UnusualEncodingsMeanTheSame) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomSequence r(seed);
    const auto check = [&](MessageKind kind, const auto& message) {
      const std::string bytes = EncodeUnusually(message, &r);
      // The oracle compares with what the generated parser makes of `bytes`;
      // that this is `message` shows that the test's own encoding is right.
      auto parsed = message;
      ASSERT_TRUE(parsed.ParseFromString(bytes)) << "seed " << seed;
      parsed.DiscardUnknownFields();
      ASSERT_EQ(parsed.SerializeAsString(), message.SerializeAsString())
          << "seed " << seed;
      for (size_t max_slice_bytes : {1, 7, 1 << 30}) {
        ASSERT_EQ(DisagreementWithGeneratedCode(
                      kind, CutIntoSlices(bytes, max_slice_bytes, &r)),
                  "")
            << "seed " << seed;
      }
    };
    check(MessageKind::kPullSparseRequest, RandomPullSparseRequest(50, &r));
    check(MessageKind::kPullSparseResponse, RandomPullSparseResponse(50, &r));
    check(MessageKind::kPushSparseRequest, RandomPushSparseRequest(50, &r));
    check(MessageKind::kPullDenseRequest, RandomPullDenseRequest(20, &r));
    check(MessageKind::kDenseResponse, RandomDenseResponse(50, &r));
    check(MessageKind::kPushDenseRequest, RandomPushDenseRequest(50, &r));
    check(MessageKind::kPushResponse, RandomPushResponse(&r));
  }
}

TEST(WireCodecTest, MessagesCutAtEveryByteAreReadAsGeneratedCodeReadsThem) {
  for (int kind = 0; kind < kNumMessageKinds; ++kind) {
    RandomSequence r(kind);
    const std::string bytes =
        RandomBytes(static_cast<MessageKind>(kind), 40, &r);
    for (size_t size = 0; size <= bytes.size(); ++size) {
      ASSERT_EQ(DisagreementWithGeneratedCode(
                    static_cast<MessageKind>(kind),
                    CutIntoSlices(bytes.substr(0, size), 64, &r)),
                "")
          << "kind " << kind << " cut at " << size << " of " << bytes.size();
    }
  }
}

TEST(WireCodecTest, EveryFlippedBitIsRefusedOrReadAsGeneratedCodeReadsIt) {
  for (int kind = 0; kind < kNumMessageKinds; ++kind) {
    RandomSequence r(100 + kind);
    const std::string bytes =
        RandomBytes(static_cast<MessageKind>(kind), 30, &r);
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
      ASSERT_EQ(DisagreementWithGeneratedCode(static_cast<MessageKind>(kind),
                                              CutIntoSlices(flipped, 64, &r)),
                "")
          << "kind " << kind << " bit " << bit;
    }
  }
}

TEST(WireCodecTest, EncodersDoNotCopyArrays) {
  const std::vector<uint64_t> keys(1000, 7);
  const std::vector<float> values(16000, 0.5f);
  const grpc::Slice key_slice(keys.data(), keys.size() * 8,
                              grpc::Slice::STATIC_SLICE);
  const grpc::Slice value_slice(values.data(), values.size() * 4,
                                grpc::Slice::STATIC_SLICE);
  const KeyGroup group{PartitionIndex(3), 1000};
  const grpc::ByteBuffer buffer = EncodePushSparseRequest(
      v1::RequestHeader(), TableId(1), {&group, 1}, key_slice, value_slice);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(static_cast<const void*>(slices[1].begin()), keys.data());
  EXPECT_EQ(static_cast<const void*>(slices[3].begin()), values.data());
}

TEST(WireCodecTest, DecodersLeaveContiguousArraysInPlace) {
  // Enough framing variants that the array is aligned in one of them.
  int in_place = 0;
  for (uint32_t padding = 0; padding < 8; ++padding) {
    v1::PullSparseResponse message;
    for (uint32_t i = 0; i < padding; ++i) message.add_group_versions(1);
    message.set_dim(4);
    message.mutable_values()->Resize(4000, 1.5f);
    const grpc::Slice slice(message.SerializeAsString());
    const auto view = DecodePullSparseResponse(grpc::ByteBuffer(&slice, 1));
    ASSERT_TRUE(view.ok()) << view.status();
    std::vector<float> scratch;
    const float* values = view->values.Elements(0, 4000, &scratch);
    EXPECT_EQ(values[3999], 1.5f);
    const auto* bytes = reinterpret_cast<const uint8_t*>(values);
    in_place += bytes >= slice.begin() && bytes < slice.end();
  }
  EXPECT_GE(in_place, 1);
}

TEST(WireCodecTest, ViewsOutliveTheBufferAndEachOther) {
  RandomSequence r(5);
  v1::PushSparseRequest message = RandomPushSparseRequest(5000, &r);
  while (message.keys_size() < 2 || message.format() != v1::FLOAT32) {
    message = RandomPushSparseRequest(5000, &r);
  }
  SlicedBytes keys;
  {
    auto buffer = CutIntoSlices(message.SerializeAsString(), 10, &r);
    auto view = DecodePushSparseRequest(buffer);
    ASSERT_TRUE(view.ok());
    const PushSparseRequestView copy = *view;
    keys = copy.keys;
  }
  std::vector<uint64_t> scratch;
  const uint64_t* elements = keys.Elements<uint64_t>(1, 1, &scratch);
  EXPECT_EQ(*elements, message.keys(1));
}

TEST(WireCodecTest, SixteenBitValuesArriveAsFloats) {
  const std::vector<float> values = {0.0f, 1.0f, -2.5f, 0.15625f};
  const KeyGroup group{PartitionIndex(0), 2};
  v1::RequestHeader header;
  header.set_message_count(1);
  header.set_table_message_count(1);
  const std::vector<uint64_t> keys = {1, 2};
  for (v1::ValueFormat format : {v1::BFLOAT16, v1::FLOAT16}) {
    std::vector<uint16_t> narrow(values.size());
    NarrowValues(format, values, absl::MakeSpan(narrow));
    const auto view = DecodePushSparseRequest(
        EncodePushSparseRequest(header, TableId(1), {&group, 1}, SliceOf(keys),
                                SliceOf(narrow), {}, {}, {}, format));
    ASSERT_TRUE(view.ok()) << view.status();
    ASSERT_EQ(view->num_values, values.size());
    std::vector<float> scratch;
    const float* wide = view->values.Elements(0, 4, &scratch);
    EXPECT_EQ(std::vector<float>(wide, wide + 4), values);
  }
}

// A push that breaks no rule yet.
v1::PushSparseRequest LegalPush() {
  v1::PushSparseRequest m;
  m.mutable_header()->set_message_count(2);
  m.mutable_header()->set_table_message_count(1);
  m.set_table(1);
  m.add_partitions(3);
  m.add_group_sizes(2);
  m.add_keys(10);
  m.add_keys(11);
  for (int i = 0; i < 6; ++i) m.add_values(0.5f);
  return m;
}

TEST(WireCodecTest, EachBrokenRuleIsRefusedByTheNameOfItsField) {
  struct Case {
    const char* field;
    void (*spoil)(v1::PushSparseRequest*);
  };
  using Push = v1::PushSparseRequest*;
  const Case kCases[] = {
      {"header", [](Push m) { m->mutable_header()->set_message_count(0); }},
      {"header", [](Push m) { m->mutable_header()->set_message_index(2); }},
      {"header",
       [](Push m) { m->mutable_header()->set_table_message_count(0); }},
      {"header",
       [](Push m) { m->mutable_header()->set_table_message_count(3); }},
      {"group_sizes", [](Push m) { m->set_group_sizes(0, 1); }},
      {"group_sizes", [](Push m) { m->add_group_sizes(0); }},
      {"group_sizes", [](Push m) { m->add_partitions(4); }},
      {"partitions",
       [](Push m) {
         m->add_partitions(3);
         m->add_group_sizes(0);
       }},
      {"partitions",
       [](Push m) {
         m->add_partitions(2);
         m->add_group_sizes(0);
       }},
      {"group_sizes",  // 2^32 + 2 keys: must not wrap around
       [](Push m) {
         m->add_partitions(4);
         m->add_partitions(5);
         m->add_group_sizes(0xffffffffu);
         m->add_group_sizes(1);
       }},
      {"values", [](Push m) { m->add_values(1); }},
      {"values16", [](Push m) { m->set_values16("abcd"); }},
      {"values", [](Push m) { m->set_format(v1::BFLOAT16); }},
      {"values16",
       [](Push m) {
         m->set_format(v1::FLOAT16);
         m->clear_values();
         m->set_values16("abc");
       }},
      {"format",
       [](Push m) { m->set_format(static_cast<v1::ValueFormat>(3)); }},
      {"shows", [](Push m) { m->add_shows(1); }},
      {"clicks", [](Push m) { m->mutable_clicks()->Resize(3, 0); }},
      {"counts", [](Push m) { m->add_counts(1); }},
  };
  ASSERT_TRUE(
      DecodePushSparseRequest(OneSlice(LegalPush().SerializeAsString())).ok());
  int number = 0;
  for (const Case& c : kCases) {
    v1::PushSparseRequest m = LegalPush();
    c.spoil(&m);
    const absl::Status status =
        DecodePushSparseRequest(OneSlice(m.SerializeAsString())).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << "case " << number;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string("PushSparseRequest.") + c.field + ": "))
        << "case " << number;
    ++number;
  }
}

TEST(WireCodecTest, EachBrokenRuleOfAnotherMessageIsRefused) {
  const auto message_of = [](const auto& decoded) {
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(decoded.status().message());
  };
  v1::PullDenseRequest dense;
  dense.add_blocks(1);
  EXPECT_THAT(
      message_of(DecodePullDenseRequest(OneSlice(dense.SerializeAsString()))),
      HasSubstr("PullDenseRequest.known_versions: "));
  dense.add_blocks(1);
  EXPECT_THAT(
      message_of(DecodePullDenseRequest(OneSlice(dense.SerializeAsString()))),
      HasSubstr("PullDenseRequest.blocks: 1 follows 1"));
  v1::PushDenseRequest push;
  push.mutable_header()->set_message_count(1);
  push.mutable_header()->set_table_message_count(1);
  push.add_blocks(1);
  push.add_known_versions(1);
  push.add_known_versions(2);
  EXPECT_THAT(
      message_of(DecodePushDenseRequest(OneSlice(push.SerializeAsString()))),
      HasSubstr("PushDenseRequest.known_versions: "));
  v1::DenseResponse dense_response;
  dense_response.add_versions(1);
  EXPECT_THAT(message_of(DecodeDenseResponse(
                  OneSlice(dense_response.SerializeAsString()))),
              HasSubstr("DenseResponse.versions: "));
  v1::PullSparseResponse response;
  response.add_values(1);
  EXPECT_THAT(message_of(DecodePullSparseResponse(
                  OneSlice(response.SerializeAsString()))),
              HasSubstr("PullSparseResponse.values: "));
  response.set_dim(1);
  response.mutable_shows()->Resize(2, 0);
  EXPECT_THAT(message_of(DecodePullSparseResponse(
                  OneSlice(response.SerializeAsString()))),
              HasSubstr("PullSparseResponse.shows: "));
}

TEST(WireCodecTest, ArraysThatEndInsideAnElementAreRefused) {
  // Tag and length of an array with a byte too few for one element.
  const auto array = [](int field, size_t element_bytes) {
    std::string bytes = {static_cast<char>(field << 3 | 2),
                         static_cast<char>(element_bytes - 1)};
    return OneSlice(bytes + std::string(element_bytes - 1, '\1'));
  };
  using Kind = MessageKind;
  EXPECT_FALSE(DecodePullSparseRequest(array(7, 8)).ok());
  for (int field : {5, 7, 8}) {
    EXPECT_FALSE(DecodePullSparseResponse(array(field, 4)).ok()) << field;
    EXPECT_EQ(DisagreementWithGeneratedCode(Kind::kPullSparseResponse,
                                            array(field, 4)),
              "");
  }
  EXPECT_FALSE(DecodeDenseResponse(array(5, 4)).ok());
}

TEST(WireCodecTest, LimitsAreNamedWhenTheyAreExceeded) {
  v1::PullSparseRequest groups;
  for (uint32_t i = 0; i <= kMaxGroupsPerMessage; ++i) {
    groups.add_partitions(i);
    groups.add_group_sizes(0);
  }
  EXPECT_THAT(
      std::string(DecodePullSparseRequest(OneSlice(groups.SerializeAsString()))
                      .status()
                      .message()),
      AllOf(HasSubstr("PullSparseRequest.partitions: has 65537"),
            HasSubstr("at most 65536")));

  v1::PullSparseRequest keys;
  keys.add_partitions(0);
  keys.add_group_sizes(kMaxKeysPerMessage + 1);
  keys.mutable_keys()->Resize(kMaxKeysPerMessage + 1, 0);
  EXPECT_THAT(
      std::string(DecodePullSparseRequest(OneSlice(keys.SerializeAsString()))
                      .status()
                      .message()),
      HasSubstr("PullSparseRequest.keys: has 4194305"));

  for (const bool dense : {false, true}) {
    v1::PushSparseRequest push = LegalPush();
    v1::RequestHeader* header = push.mutable_header();
    auto* examples =
        dense ? header->mutable_dense_examples() : header->mutable_examples();
    while (header->ByteSizeLong() <= kMaxHeaderBytes) {
      for (int i = 0; i < 10000; ++i) examples->Add();
    }
    EXPECT_THAT(
        std::string(DecodePushSparseRequest(OneSlice(push.SerializeAsString()))
                        .status()
                        .message()),
        HasSubstr("PushSparseRequest.header: has "));
  }

  const std::string large(kMaxMessageBytes + 1, '\0');
  EXPECT_THAT(
      std::string(DecodePullDenseRequest(OneSlice(large)).status().message()),
      HasSubstr("PullDenseRequest: has 67108865 bytes"));
}

TEST(WireCodecTest, ABufferThatWasNeverFilledIsRefused) {
  EXPECT_EQ(DecodePullSparseRequest(grpc::ByteBuffer()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace oarlock::wire
