// What the codec is compared with: the generated parser, and the rules of
// docs/wire_protocol.md written down a second time.

#ifndef OARLOCK_TESTS_WIRE_CODEC_ORACLE_H_
#define OARLOCK_TESTS_WIRE_CODEC_ORACLE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <string>

#include "base/random.h"
#include "proto/v1/parameter.pb.h"

namespace oarlock::wire {

// The messages of the data plane.
enum class MessageKind {
  kPullSparseRequest,
  kPullSparseResponse,
  kPushSparseRequest,
  kPullDenseRequest,
  kDenseResponse,
  kPushDenseRequest,
  kPushResponse,
};
inline constexpr int kNumMessageKinds = 7;

// A legal message with up to about `size` keys or floats.
v1::PullSparseRequest RandomPullSparseRequest(size_t size, RandomSequence* r);
v1::PullSparseResponse RandomPullSparseResponse(size_t size, RandomSequence* r);
v1::PushSparseRequest RandomPushSparseRequest(size_t size, RandomSequence* r);
v1::PullDenseRequest RandomPullDenseRequest(size_t size, RandomSequence* r);
v1::DenseResponse RandomDenseResponse(size_t size, RandomSequence* r);
v1::PushDenseRequest RandomPushDenseRequest(size_t size, RandomSequence* r);
v1::PushResponse RandomPushResponse(RandomSequence* r);
// The generated encoding of such a message.
std::string RandomBytes(MessageKind kind, size_t size, RandomSequence* r);

// Another encoding of `message`: fields in random order, packed arrays in
// pieces and single elements, scalars sent twice, submessages in two parts,
// unknown fields of every wire type in between.
std::string EncodeUnusually(const google::protobuf::Message& message,
                            RandomSequence* r);

// Damages `bytes` in one of several ways: flips, cuts, insertions, moves.
std::string Damage(std::string bytes, RandomSequence* r);

// `bytes` cut into slices of 1 to `max_slice_bytes`, some of them empty.
grpc::ByteBuffer CutIntoSlices(const std::string& bytes, size_t max_slice_bytes,
                               RandomSequence* r);
grpc::ByteBuffer OneSlice(const std::string& bytes);
// The buffer's bytes.
std::string Flatten(const grpc::ByteBuffer& buffer);

// Decodes `buffer` and returns how that differs from what the generated parser
// and the rules say of its bytes: empty where it does not. A message that
// breaks a rule must be InvalidArgument in one line that names the message.
std::string DisagreementWithGeneratedCode(MessageKind kind,
                                          const grpc::ByteBuffer& buffer);

}  // namespace oarlock::wire

#endif  // OARLOCK_TESTS_WIRE_CODEC_ORACLE_H_
