#include "tests/wire/codec_oracle.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "wire/value_format.h"
#include "wire/wire_codec.h"
#include "wire/wire_limits.h"

namespace oarlock::wire {
namespace {

// What a view shows, as the message it came from: 16-bit values as floats.

template <typename T>
std::vector<T> ToVector(const SlicedBytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  // In two runs, so that element access at odd places is used as well.
  std::vector<T> scratch;
  const size_t half = values.size() / 2;
  if (values.empty()) return values;
  std::memcpy(values.data(), bytes.Elements<T>(0, half, &scratch),
              half * sizeof(T));
  std::memcpy(values.data() + half,
              bytes.Elements<T>(half, values.size() - half, &scratch),
              (values.size() - half) * sizeof(T));
  return values;
}

template <typename T, typename Field>
void Fill(const SlicedBytes& bytes, Field* field) {
  for (T value : ToVector<T>(bytes)) field->Add(value);
}

// Half of them by each way in which they can be had.
void FillValues(const ReceivedFloats& values,
                google::protobuf::RepeatedField<float>* field) {
  const size_t half = values.size() / 2;
  const size_t rest = values.size() - half;
  std::vector<float> scratch;
  const float* first = values.Elements(0, half, &scratch);
  field->Add(first, first + half);
  std::vector<float> second(rest);
  values.CopyTo(half, rest, second.data());
  field->Add(second.begin(), second.end());
}

template <typename Message>
void FillGroups(const std::vector<KeyGroup>& groups, Message* message) {
  for (const KeyGroup& group : groups) {
    message->add_partitions(group.partition.value());
    message->add_group_sizes(group.num_keys);
  }
}

template <typename Message>
void FillBlocks(const std::vector<BlockIndex>& blocks, Message* message) {
  for (BlockIndex block : blocks) message->add_blocks(block.value());
}

v1::PullSparseRequest Rebuild(const PullSparseRequestView& view) {
  v1::PullSparseRequest m;
  *m.mutable_header() = view.header;
  m.set_table(view.table.value());
  FillGroups(view.groups, &m);
  m.set_format(view.format);
  m.set_with_statistics(view.with_statistics);
  Fill<uint64_t>(view.keys, m.mutable_keys());
  m.mutable_held_versions()->Add(view.held_versions.begin(),
                                 view.held_versions.end());
  m.set_held_generation(view.held_generation);
  OARLOCK_CHECK(static_cast<size_t>(m.keys_size()) == view.num_keys);
  return m;
}

v1::PullSparseResponse Rebuild(const PullSparseResponseView& view) {
  v1::PullSparseResponse m;
  *m.mutable_header() = view.header;
  m.set_dim(view.dim);
  m.mutable_group_versions()->Add(view.group_versions.begin(),
                                  view.group_versions.end());
  FillValues(view.values, m.mutable_values());
  Fill<float>(view.shows, m.mutable_shows());
  Fill<float>(view.clicks, m.mutable_clicks());
  OARLOCK_CHECK(static_cast<size_t>(m.values_size()) == view.num_values);
  return m;
}

v1::PushSparseRequest Rebuild(const PushSparseRequestView& view) {
  v1::PushSparseRequest m;
  *m.mutable_header() = view.header;
  m.set_table(view.table.value());
  FillGroups(view.groups, &m);
  Fill<uint64_t>(view.keys, m.mutable_keys());
  FillValues(view.values, m.mutable_values());
  Fill<float>(view.shows, m.mutable_shows());
  Fill<float>(view.clicks, m.mutable_clicks());
  m.mutable_counts()->Add(view.counts.begin(), view.counts.end());
  OARLOCK_CHECK(static_cast<size_t>(m.keys_size()) == view.num_keys);
  OARLOCK_CHECK(static_cast<size_t>(m.values_size()) == view.num_values);
  return m;
}

v1::PullDenseRequest Rebuild(const PullDenseRequestView& view) {
  v1::PullDenseRequest m;
  *m.mutable_header() = view.header;
  m.set_table(view.table.value());
  FillBlocks(view.blocks, &m);
  m.mutable_known_versions()->Add(view.known_versions.begin(),
                                  view.known_versions.end());
  m.set_format(view.format);
  return m;
}

v1::DenseResponse Rebuild(const DenseResponseView& view) {
  v1::DenseResponse m;
  *m.mutable_header() = view.header;
  FillBlocks(view.blocks, &m);
  m.mutable_versions()->Add(view.versions.begin(), view.versions.end());
  FillValues(view.values, m.mutable_values());
  OARLOCK_CHECK(static_cast<size_t>(m.values_size()) == view.num_values);
  m.set_duplicate_groups(view.duplicate_groups);
  return m;
}

v1::PushDenseRequest Rebuild(const PushDenseRequestView& view) {
  v1::PushDenseRequest m;
  *m.mutable_header() = view.header;
  m.set_table(view.table.value());
  FillBlocks(view.blocks, &m);
  FillValues(view.values, m.mutable_values());
  m.set_num_steps(view.num_steps);
  m.set_with_values(view.with_values);
  m.set_response_format(view.response_format);
  m.mutable_known_versions()->Add(view.known_versions.begin(),
                                  view.known_versions.end());
  OARLOCK_CHECK(static_cast<size_t>(m.values_size()) == view.num_values);
  return m;
}

v1::PushResponse Rebuild(const v1::PushResponse& message) { return message; }

// The rules, a second time.

bool AscendWithinLimit(const google::protobuf::RepeatedField<uint32_t>& x) {
  for (int i = 0; i + 1 < x.size(); ++i) {
    if (!(x[i] < x[i + 1])) return false;
  }
  return static_cast<size_t>(x.size()) <= kMaxGroupsPerMessage;
}

template <typename Message>
bool GroupsAreLegal(const Message& m) {
  uint64_t sum = 0;
  for (uint32_t size : m.group_sizes()) sum += size;
  return AscendWithinLimit(m.partitions()) &&
         m.partitions_size() == m.group_sizes_size() &&
         sum == static_cast<uint64_t>(m.keys_size()) &&
         sum <= kMaxKeysPerMessage;
}

template <typename Message>
bool ValuesAreLegal(const Message& m) {
  if (m.format() == v1::FLOAT32) return m.values16().empty();
  if (m.format() != v1::BFLOAT16 && m.format() != v1::FLOAT16) return false;
  return m.values_size() == 0 && m.values16().size() % 2 == 0;
}

template <typename Message>
uint64_t NumValues(const Message& m) {
  return m.values_size() + m.values16().size() / 2;
}

bool PartIsLegal(const v1::RequestHeader& h) {
  return h.message_count() >= 1 && h.message_index() < h.message_count() &&
         h.table_message_count() >= 1 &&
         h.table_message_count() <= h.message_count();
}

bool FloatsPer(int size, uint64_t num_keys) {
  return size == 0 || static_cast<uint64_t>(size) == num_keys;
}

bool IsLegal(const v1::PullSparseRequest& m) {
  return GroupsAreLegal(m) && m.format() >= 0 && m.format() <= 2 &&
         (m.held_versions_size() == 0 ||
          m.held_versions_size() == m.partitions_size());
}

bool IsLegal(const v1::PullSparseResponse& m) {
  if (!ValuesAreLegal(m) || m.changed_only() || m.changed_size() > 0) {
    return false;
  }
  const uint64_t n = NumValues(m);
  if (n > 0 && (m.dim() == 0 || n % m.dim() != 0)) return false;
  const uint64_t num_keys = n == 0 ? 0 : n / m.dim();
  return FloatsPer(m.shows_size(), num_keys) &&
         FloatsPer(m.clicks_size(), num_keys) &&
         static_cast<size_t>(m.group_versions_size()) <= kMaxGroupsPerMessage;
}

bool IsLegal(const v1::PushSparseRequest& m) {
  if (!PartIsLegal(m.header()) || !GroupsAreLegal(m) || !ValuesAreLegal(m)) {
    return false;
  }
  const uint64_t keys = m.keys_size();
  if (keys == 0 ? NumValues(m) != 0 : NumValues(m) % keys != 0) return false;
  return FloatsPer(m.shows_size(), keys) && FloatsPer(m.clicks_size(), keys) &&
         FloatsPer(m.counts_size(), keys);
}

bool IsLegal(const v1::PullDenseRequest& m) {
  return AscendWithinLimit(m.blocks()) && m.format() >= 0 && m.format() <= 2 &&
         m.blocks_size() == m.known_versions_size();
}

bool IsLegal(const v1::DenseResponse& m) {
  return AscendWithinLimit(m.blocks()) && ValuesAreLegal(m) &&
         m.blocks_size() == m.versions_size();
}

bool IsLegal(const v1::PushDenseRequest& m) {
  if (m.known_versions_size() != 0 &&
      m.known_versions_size() != m.blocks_size()) {
    return false;
  }
  return PartIsLegal(m.header()) && AscendWithinLimit(m.blocks()) &&
         ValuesAreLegal(m) && v1::ValueFormat_IsValid(m.response_format());
}

bool IsLegal(const v1::PushResponse&) { return true; }

// Puts a message into the form that Rebuild gives.
template <typename Message>
void Normalise(Message* m) {
  if constexpr (requires { m->values16(); }) {
    const std::string narrow = m->values16();
    for (size_t i = 0; i + 1 < narrow.size(); i += 2) {
      const uint16_t bits = static_cast<uint8_t>(narrow[i]) |
                            static_cast<uint8_t>(narrow[i + 1]) << 8;
      m->add_values(m->format() == v1::BFLOAT16 ? FromBfloat16(bits)
                                                : FromFloat16(bits));
    }
    m->clear_values16();
    m->clear_format();
  }
  m->mutable_header();
  m->DiscardUnknownFields();
}

template <typename Message, typename View>
std::string Disagreement(const std::string& bytes,
                         const absl::StatusOr<View>& decoded) {
  const std::string name = Message::descriptor()->name();
  Message expected;
  const bool legal = expected.ParseFromString(bytes) && IsLegal(expected) &&
                     expected.header().ByteSizeLong() <= kMaxHeaderBytes;
  if (!decoded.ok()) {
    if (legal) {
      return absl::StrCat("a legal ", name,
                          " was refused: ", decoded.status().ToString());
    }
    if (decoded.status().code() != absl::StatusCode::kInvalidArgument) {
      return absl::StrCat("wrong code: ", decoded.status().ToString());
    }
    const absl::string_view message = decoded.status().message();
    if (!absl::StartsWith(message, name) || absl::StrContains(message, "\n")) {
      return absl::StrCat("not one line that names ", name, ": ", message);
    }
    return "";
  }
  if (!legal) return absl::StrCat("an illegal ", name, " was accepted");
  Message actual = Rebuild(*decoded);
  actual.mutable_header();
  actual.DiscardUnknownFields();
  Normalise(&expected);
  if (actual.SerializeAsString() == expected.SerializeAsString()) return "";
  return absl::StrCat(name, " decoded as ", actual.ShortDebugString(),
                      " but is ", expected.ShortDebugString());
}

}  // namespace

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  OARLOCK_CHECK(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

grpc::ByteBuffer OneSlice(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer CutIntoSlices(const std::string& bytes, size_t max_slice_bytes,
                               RandomSequence* r) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    if (r->Below(8) == 0) slices.emplace_back();
    const size_t size =
        std::min<size_t>(bytes.size() - at, 1 + r->Below(max_slice_bytes));
    slices.emplace_back(bytes.data() + at, size);
    at += size;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string DisagreementWithGeneratedCode(MessageKind kind,
                                          const grpc::ByteBuffer& buffer) {
  const std::string bytes = Flatten(buffer);
  switch (kind) {
    case MessageKind::kPullSparseRequest:
      return Disagreement<v1::PullSparseRequest>(
          bytes, DecodePullSparseRequest(buffer));
    case MessageKind::kPullSparseResponse:
      return Disagreement<v1::PullSparseResponse>(
          bytes, DecodePullSparseResponse(buffer));
    case MessageKind::kPushSparseRequest:
      return Disagreement<v1::PushSparseRequest>(
          bytes, DecodePushSparseRequest(buffer));
    case MessageKind::kPullDenseRequest:
      return Disagreement<v1::PullDenseRequest>(bytes,
                                                DecodePullDenseRequest(buffer));
    case MessageKind::kDenseResponse:
      return Disagreement<v1::DenseResponse>(bytes,
                                             DecodeDenseResponse(buffer));
    case MessageKind::kPushDenseRequest:
      return Disagreement<v1::PushDenseRequest>(bytes,
                                                DecodePushDenseRequest(buffer));
    case MessageKind::kPushResponse:
      return Disagreement<v1::PushResponse>(bytes, DecodePushResponse(buffer));
  }
  return "no such kind of message";
}

}  // namespace oarlock::wire
