#include "wire/batch_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/random.h"
#include "proto/v1/parameter.pb.h"
#include "tests/wire/codec_oracle.h"
#include "wire/wire_limits.h"

namespace oarlock::wire {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// One to six random calls.
v1::BatchRequest RandomRequest(RandomSequence* r) {
  v1::BatchRequest batch;
  for (uint64_t i = 1 + r->Below(6); i > 0; --i) {
    v1::BatchCall* call = batch.add_calls();
    switch (r->Below(4)) {
      case 0:
        *call->mutable_pull_sparse() = RandomPullSparseRequest(50, r);
        break;
      case 1:
        *call->mutable_push_sparse() = RandomPushSparseRequest(50, r);
        break;
      case 2:
        *call->mutable_pull_dense() = RandomPullDenseRequest(50, r);
        break;
      default:
        *call->mutable_push_dense() = RandomPushDenseRequest(50, r);
    }
  }
  return batch;
}

v1::BatchResponse RandomResponse(RandomSequence* r) {
  v1::BatchResponse batch;
  for (uint64_t i = 1 + r->Below(6); i > 0; --i) {
    v1::BatchResult* result = batch.add_results();
    if (r->Below(3) == 0) {
      result->set_status_code(1 + r->Below(16));
      result->set_status_message(std::string(r->Below(40), 'x'));
    } else {
      result->set_response(RandomDenseResponse(50, r).SerializeAsString());
    }
  }
  return batch;
}

std::string BytesOf(const v1::BatchCall& call) {
  switch (call.call_case()) {
    case v1::BatchCall::kPullSparse:
      return call.pull_sparse().SerializeAsString();
    case v1::BatchCall::kPushSparse:
      return call.push_sparse().SerializeAsString();
    case v1::BatchCall::kPullDense:
      return call.pull_dense().SerializeAsString();
    default:
      return call.push_dense().SerializeAsString();
  }
}

TEST(BatchCodecTest, EncodersSendTheBytesOfGeneratedCode) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomSequence r(seed);
    const v1::BatchRequest request = RandomRequest(&r);
    std::vector<BatchedCall> calls;
    for (const v1::BatchCall& call : request.calls()) {
      calls.push_back({static_cast<BatchMethod>(call.call_case()),
                       CutIntoSlices(BytesOf(call), 100, &r)});
    }
    ASSERT_EQ(Flatten(EncodeBatchRequest(calls)), request.SerializeAsString())
        << "seed " << seed;
    const v1::BatchResponse response = RandomResponse(&r);
    std::vector<absl::StatusOr<grpc::ByteBuffer>> responses;
    for (const v1::BatchResult& result : response.results()) {
      if (result.status_code() == 0) {
        responses.emplace_back(CutIntoSlices(result.response(), 100, &r));
      } else {
        responses.emplace_back(
            absl::Status(static_cast<absl::StatusCode>(result.status_code()),
                         result.status_message()));
      }
    }
    ASSERT_EQ(Flatten(EncodeBatchResponse(responses)),
              response.SerializeAsString())
        << "seed " << seed;
  }
}

TEST(BatchCodecTest, DecodersReadGeneratedBytesInAnySlicing) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomSequence r(seed);
    const v1::BatchRequest request = RandomRequest(&r);
    const v1::BatchResponse response = RandomResponse(&r);
    for (const size_t max_slice_bytes : {1, 9, 100, 1 << 30}) {
      const auto calls = DecodeBatchRequest(
          CutIntoSlices(request.SerializeAsString(), max_slice_bytes, &r));
      ASSERT_TRUE(calls.ok()) << calls.status() << " seed " << seed;
      ASSERT_EQ(calls->size(), static_cast<size_t>(request.calls_size()));
      for (size_t i = 0; i < calls->size(); ++i) {
        const v1::BatchCall& call = request.calls(static_cast<int>(i));
        ASSERT_EQ(static_cast<int>((*calls)[i].method), call.call_case());
        ASSERT_EQ(Flatten((*calls)[i].request), BytesOf(call));
      }
      const auto responses = DecodeBatchResponse(
          CutIntoSlices(response.SerializeAsString(), max_slice_bytes, &r));
      ASSERT_TRUE(responses.ok()) << responses.status() << " seed " << seed;
      ASSERT_EQ(responses->size(),
                static_cast<size_t>(response.results_size()));
      for (size_t i = 0; i < responses->size(); ++i) {
        const v1::BatchResult& result = response.results(static_cast<int>(i));
        const auto& read = (*responses)[i];
        ASSERT_EQ(static_cast<uint32_t>(read.status().code()),
                  result.status_code());
        if (read.ok()) {
          ASSERT_EQ(Flatten(*read), result.response());
        } else {
          ASSERT_EQ(read.status().message(), result.status_message());
        }
      }
    }
  }
}

TEST(BatchCodecTest, DamagedMessagesAreReadOrRefusedInOneLine) {
  int refused = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    RandomSequence r(seed);
    const std::string request =
        Damage(RandomRequest(&r).SerializeAsString(), &r);
    const std::string response =
        Damage(RandomResponse(&r).SerializeAsString(), &r);
    const auto calls = DecodeBatchRequest(CutIntoSlices(request, 64, &r));
    const auto responses = DecodeBatchResponse(CutIntoSlices(response, 64, &r));
    for (const absl::Status& status : {calls.status(), responses.status()}) {
      if (status.ok()) continue;
      ++refused;
      // A damaged number may be that of no method.
      ASSERT_TRUE(absl::IsInvalidArgument(status) ||
                  absl::IsUnimplemented(status))
          << status;
      ASSERT_THAT(std::string(status.message()),
                  AnyOf(HasSubstr("Batch"), HasSubstr("batch")));
      ASSERT_EQ(status.message().find('\n'), absl::string_view::npos);
    }
  }
  EXPECT_GT(refused, 500);
}

std::string BytesOf(const google::protobuf::UnknownFieldSet& fields) {
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

// Field 1, which has these bytes.
std::string FieldOne(const std::string& bytes) {
  google::protobuf::UnknownFieldSet fields;
  fields.AddLengthDelimited(1, bytes);
  return BytesOf(fields);
}

// None to two fields that only a newer peer knows, of numbers from `first` on.
std::string NewerFields(int first, RandomSequence* r) {
  google::protobuf::UnknownFieldSet fields;
  for (uint64_t i = r->Below(3); i > 0; --i) {
    const int field = first + static_cast<int>(r->Below((1 << 29) - first));
    const int small = first + static_cast<int>(r->Below(12));
    const int number = r->Below(2) == 0 ? field : small;
    switch (r->Below(4)) {
      case 0:
        fields.AddVarint(number, (*r)());
        break;
      case 1:
        fields.AddFixed32(number, static_cast<uint32_t>((*r)()));
        break;
      case 2:
        fields.AddFixed64(number, (*r)());
        break;
      default:
        fields.AddLengthDelimited(number, std::string(r->Below(300), 'n'));
    }
  }
  return BytesOf(fields);
}

TEST(BatchCodecTest, FieldsOfANewerPeerAreSkipped) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomSequence r(seed);
    const v1::BatchRequest request = RandomRequest(&r);
    std::string bytes = NewerFields(2, &r);
    for (const v1::BatchCall& call : request.calls()) {
      bytes += FieldOne(NewerFields(6, &r) + call.SerializeAsString() +
                        NewerFields(6, &r));
      bytes += NewerFields(2, &r);
    }
    v1::BatchRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes)) << "seed " << seed;
    const auto calls = DecodeBatchRequest(CutIntoSlices(bytes, 9, &r));
    ASSERT_TRUE(calls.ok()) << calls.status() << " seed " << seed;
    ASSERT_EQ(calls->size(), static_cast<size_t>(request.calls_size()));
    for (size_t i = 0; i < calls->size(); ++i) {
      const v1::BatchCall& call = request.calls(static_cast<int>(i));
      ASSERT_EQ(static_cast<int>((*calls)[i].method), call.call_case());
      ASSERT_EQ(Flatten((*calls)[i].request), BytesOf(call));
    }

    const v1::BatchResponse response = RandomResponse(&r);
    bytes = NewerFields(2, &r);
    for (const v1::BatchResult& result : response.results()) {
      bytes += FieldOne(NewerFields(4, &r) + result.SerializeAsString() +
                        NewerFields(4, &r));
      bytes += NewerFields(2, &r);
    }
    const auto responses = DecodeBatchResponse(CutIntoSlices(bytes, 9, &r));
    ASSERT_TRUE(responses.ok()) << responses.status() << " seed " << seed;
    ASSERT_EQ(responses->size(), static_cast<size_t>(response.results_size()));
    for (size_t i = 0; i < responses->size(); ++i) {
      const v1::BatchResult& result = response.results(static_cast<int>(i));
      const auto& read = (*responses)[i];
      ASSERT_EQ(static_cast<uint32_t>(read.status().code()),
                result.status_code());
      if (read.ok()) {
        ASSERT_EQ(Flatten(*read), result.response());
      } else {
        ASSERT_EQ(read.status().message(), result.status_message());
      }
    }
  }
}

TEST(BatchCodecTest, APullThatWaitsForPushesIsRefused) {
  RandomSequence r(1);
  v1::BatchRequest request;
  request.add_calls()->mutable_push_sparse();
  v1::BatchCall* const pull = request.add_calls();
  pull->mutable_pull_sparse();
  ASSERT_TRUE(
      DecodeBatchRequest(CutIntoSlices(request.SerializeAsString(), 3, &r))
          .ok());
  pull->set_after_pushes(true);
  const absl::Status status =
      DecodeBatchRequest(CutIntoSlices(request.SerializeAsString(), 3, &r))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "call 2 of the batch waits for pushes, which this server does not "
            "do; pull after their answers");
}

TEST(BatchCodecTest, ACallOfAMethodOfANewerPeerIsRefused) {
  google::protobuf::UnknownFieldSet call;
  call.AddLengthDelimited(6, "a request");
  const auto calls = DecodeBatchRequest(OneSlice(FieldOne(BytesOf(call))));
  EXPECT_EQ(calls.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BatchCodecTest, AFieldThatEndsBehindItsMessageIsRefused) {
  for (const std::string& field :
       {std::string("\x31") + std::string(7, 'x'), std::string("\x35xxx"),
        std::string("\x30\x80"), std::string("\x32\x03xx"),
        // A group.
        std::string("\x33\x34"),
        // Field 0.
        std::string("\x02\x01x")}) {
    v1::BatchCall call;
    call.mutable_pull_dense();
    const std::string bytes = FieldOne(call.SerializeAsString() + field);
    EXPECT_FALSE(DecodeBatchRequest(OneSlice(bytes)).ok());
    EXPECT_FALSE(DecodeBatchResponse(OneSlice(FieldOne(field))).ok());
    EXPECT_FALSE(DecodeBatchRequest(OneSlice(field)).ok());
  }
}

TEST(BatchCodecTest, TooManyCallsAreRefused) {
  v1::BatchRequest batch;
  for (size_t i = 0; i <= kMaxCallsPerBatch; ++i) {
    batch.add_calls()->mutable_pull_dense();
  }
  EXPECT_THAT(
      std::string(DecodeBatchRequest(OneSlice(batch.SerializeAsString()))
                      .status()
                      .message()),
      HasSubstr("holds more than 4096 calls"));
}

}  // namespace
}  // namespace oarlock::wire
