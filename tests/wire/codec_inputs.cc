// Random messages and random encodings of them.

#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <memory>
#include <vector>

#include "base/check.h"
#include "tests/wire/codec_oracle.h"

namespace oarlock::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownFieldSet;

// A number of any length in bits, often 0.
uint64_t AnyNumber(int max_bits, RandomSequence* r) {
  const uint64_t bits = r->Below(max_bits + 1);
  return bits == 0 ? 0 : (*r)() >> (64 - bits);
}

// Any bits, NaN and infinities too.
float AnyFloat(RandomSequence* r) {
  const uint32_t bits = static_cast<uint32_t>((*r)());
  return std::bit_cast<float>(bits);
}

v1::RequestHeader RandomRequestHeader(RandomSequence* r) {
  v1::RequestHeader h;
  h.set_protocol_version(AnyNumber(2, r));
  h.set_job_hash((*r)());
  h.set_routing_generation(AnyNumber(64, r));
  h.set_server_generation(AnyNumber(64, r));
  h.set_worker_index(AnyNumber(32, r));
  h.set_worker_generation(AnyNumber(64, r));
  h.set_min_version(AnyNumber(64, r));
  return h;
}

v1::RequestHeader RandomPushHeader(RandomSequence* r) {
  v1::RequestHeader h = RandomRequestHeader(r);
  h.clear_min_version();
  h.set_sequence(1 + AnyNumber(40, r));
  h.set_oldest_unanswered(AnyNumber(40, r));
  h.set_values_are_finite(r->Below(2) != 0);
  h.set_cut(AnyNumber(20, r));
  h.set_message_count(1 + r->Below(20));
  h.set_message_index(r->Below(h.message_count()));
  h.set_table_message_count(1 + r->Below(h.message_count()));
  h.set_round(AnyNumber(30, r));
  for (auto* intervals : {h.mutable_examples(), h.mutable_dense_examples()}) {
    for (uint64_t n = r->Below(4); n > 0; --n) {
      v1::ExampleInterval* examples = intervals->Add();
      examples->set_source(AnyNumber(10, r));
      examples->set_begin(AnyNumber(40, r));
      examples->set_end(examples->begin() + 512);
      examples->set_epoch(AnyNumber(5, r));
    }
  }
  h.set_completing_worker(AnyNumber(32, r));
  h.set_completing_generation(AnyNumber(64, r));
  return h;
}

v1::ResponseHeader RandomResponseHeader(RandomSequence* r) {
  v1::ResponseHeader h;
  h.set_server_generation(AnyNumber(64, r));
  h.set_routing_generation(AnyNumber(64, r));
  h.set_table_version(AnyNumber(64, r));
  h.set_cut(AnyNumber(64, r));
  return h;
}

template <typename M>
void AddGroups(size_t num_keys, RandomSequence* r, M* m) {
  uint32_t partition = static_cast<uint32_t>(r->Below(5));
  while (num_keys > 0) {
    const size_t size = 1 + r->Below(std::min<size_t>(num_keys, 200));
    m->add_partitions(partition);
    m->add_group_sizes(static_cast<uint32_t>(size));
    for (size_t i = 0; i < size; ++i) m->add_keys((*r)());
    num_keys -= size;
    partition += static_cast<uint32_t>(1 + r->Below(300));
  }
}

// Ascending blocks; with versions where they are wanted.
template <typename M>
void AddBlocks(size_t num_blocks, RandomSequence* r, M* m) {
  uint32_t block = 0;
  for (size_t i = 0; i < num_blocks; ++i) {
    block += static_cast<uint32_t>(1 + r->Below(1000));
    m->add_blocks(block);
  }
}

template <typename M>
void AddValues(size_t num_values, RandomSequence* r, M* m) {
  m->set_format(static_cast<v1::ValueFormat>(r->Below(3)));
  for (size_t i = 0; i < num_values; ++i) {
    if (m->format() == v1::FLOAT32) {
      m->add_values(AnyFloat(r));
    } else {
      const uint64_t bits = (*r)();
      m->mutable_values16()->push_back(static_cast<char>(bits));
      m->mutable_values16()->push_back(static_cast<char>(bits >> 8));
    }
  }
}

template <typename M>
void AddStatistics(size_t num_keys, RandomSequence* r, M* m) {
  if (r->Below(2) == 0) return;
  for (size_t i = 0; i < num_keys; ++i) {
    m->add_shows(AnyFloat(r));
    m->add_clicks(AnyFloat(r));
  }
}

}  // namespace

v1::PullSparseRequest RandomPullSparseRequest(size_t size, RandomSequence* r) {
  v1::PullSparseRequest m;
  *m.mutable_header() = RandomRequestHeader(r);
  m.set_table(AnyNumber(32, r));
  AddGroups(r->Below(size + 1), r, &m);
  m.set_format(static_cast<v1::ValueFormat>(r->Below(3)));
  m.set_with_statistics(r->Below(2) == 0);
  if (r->Below(2) == 0) {
    for (int i = 0; i < m.partitions_size(); ++i) {
      m.add_held_versions(AnyNumber(64, r));
    }
    m.set_held_generation(AnyNumber(64, r));
  }
  return m;
}

v1::PullSparseResponse RandomPullSparseResponse(size_t size,
                                                RandomSequence* r) {
  v1::PullSparseResponse m;
  *m.mutable_header() = RandomResponseHeader(r);
  m.set_dim(1 + r->Below(17));
  for (uint64_t n = r->Below(30); n > 0; --n) {
    m.add_group_versions(AnyNumber(64, r));
  }
  const size_t num_keys = r->Below(size / m.dim() + 1);
  AddValues(num_keys * m.dim(), r, &m);
  AddStatistics(num_keys, r, &m);
  return m;
}

v1::PushSparseRequest RandomPushSparseRequest(size_t size, RandomSequence* r) {
  v1::PushSparseRequest m;
  *m.mutable_header() = RandomPushHeader(r);
  m.set_table(AnyNumber(32, r));
  const size_t dim = 1 + r->Below(17);
  const size_t num_keys = r->Below(size / dim + 1);
  AddGroups(num_keys, r, &m);
  AddValues(num_keys * dim, r, &m);
  AddStatistics(num_keys, r, &m);
  if (r->Below(2) == 0) {
    for (size_t i = 0; i < num_keys; ++i) m.add_counts(AnyNumber(32, r));
  }
  return m;
}

v1::PullDenseRequest RandomPullDenseRequest(size_t size, RandomSequence* r) {
  v1::PullDenseRequest m;
  *m.mutable_header() = RandomRequestHeader(r);
  m.set_table(AnyNumber(32, r));
  AddBlocks(r->Below(size + 1), r, &m);
  for (int i = 0; i < m.blocks_size(); ++i) {
    m.add_known_versions(AnyNumber(64, r));
  }
  m.set_format(static_cast<v1::ValueFormat>(r->Below(3)));
  return m;
}

v1::DenseResponse RandomDenseResponse(size_t size, RandomSequence* r) {
  v1::DenseResponse m;
  *m.mutable_header() = RandomResponseHeader(r);
  AddBlocks(r->Below(20), r, &m);
  for (int i = 0; i < m.blocks_size(); ++i) m.add_versions(AnyNumber(64, r));
  AddValues(r->Below(size + 1), r, &m);
  m.set_duplicate_groups(AnyNumber(32, r));
  return m;
}

v1::PushDenseRequest RandomPushDenseRequest(size_t size, RandomSequence* r) {
  v1::PushDenseRequest m;
  *m.mutable_header() = RandomPushHeader(r);
  m.set_table(AnyNumber(32, r));
  AddBlocks(r->Below(20), r, &m);
  AddValues(r->Below(size + 1), r, &m);
  m.set_num_steps(AnyNumber(32, r));
  m.set_with_values(r->Below(2) == 1);
  m.set_response_format(static_cast<v1::ValueFormat>(r->Below(3)));
  if (r->Below(2) == 1) {
    for (int i = 0; i < m.blocks_size(); ++i) {
      m.add_known_versions(AnyNumber(64, r));
    }
  }
  return m;
}

v1::PushResponse RandomPushResponse(RandomSequence* r) {
  v1::PushResponse m;
  *m.mutable_header() = RandomResponseHeader(r);
  m.set_duplicate_groups(AnyNumber(32, r));
  return m;
}

std::string RandomBytes(MessageKind kind, size_t size, RandomSequence* r) {
  switch (kind) {
    case MessageKind::kPullSparseRequest:
      return RandomPullSparseRequest(size, r).SerializeAsString();
    case MessageKind::kPullSparseResponse:
      return RandomPullSparseResponse(size, r).SerializeAsString();
    case MessageKind::kPushSparseRequest:
      return RandomPushSparseRequest(size, r).SerializeAsString();
    case MessageKind::kPullDenseRequest:
      return RandomPullDenseRequest(size, r).SerializeAsString();
    case MessageKind::kDenseResponse:
      return RandomDenseResponse(size, r).SerializeAsString();
    case MessageKind::kPushDenseRequest:
      return RandomPushDenseRequest(size, r).SerializeAsString();
    case MessageKind::kPushResponse:
      return RandomPushResponse(r).SerializeAsString();
  }
  return "";
}

namespace {

// Number of a field that no message of the data plane has.
int UnknownNumber(RandomSequence* r) {
  constexpr int kNumbers[] = {23, 31, 100, 2047, 2048, 536870911};
  return kNumbers[r->Below(6)];
}

std::string Serialized(const UnknownFieldSet& fields) {
  std::string bytes;
  OARLOCK_CHECK(fields.SerializeToString(&bytes));
  return bytes;
}

std::string UnknownField(RandomSequence* r) {
  UnknownFieldSet fields;
  const int number = UnknownNumber(r);
  switch (r->Below(5)) {
    case 0:
      fields.AddVarint(number, AnyNumber(64, r));
      break;
    case 1:
      fields.AddFixed64(number, (*r)());
      break;
    case 2:
      fields.AddLengthDelimited(number, std::string(r->Below(40), 'x'));
      break;
    case 3:
      fields.AddGroup(number)->AddVarint(3, 4);
      break;
    default:
      fields.AddFixed32(number, static_cast<uint32_t>((*r)()));
  }
  return Serialized(fields);
}

// The encoding of one field of `message` alone; of a repeated one, elements
// [begin, end).
std::string OnlyField(const Message& message, const FieldDescriptor* field,
                      int begin, int end) {
  std::unique_ptr<Message> part(message.New());
  const Reflection* reflection = message.GetReflection();
  part->CopyFrom(message);
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*part, &fields);
  for (const FieldDescriptor* other : fields) {
    if (other != field) reflection->ClearField(part.get(), other);
  }
  if (field->is_repeated()) {
    const int size = reflection->FieldSize(*part, field);
    for (int i = end; i < size; ++i) reflection->RemoveLast(part.get(), field);
    // Removes the first `begin` elements.
    for (int i = 0; i < begin; ++i) {
      for (int j = 0; j + 1 < end - i; ++j) {
        reflection->SwapElements(part.get(), field, j, j + 1);
      }
      reflection->RemoveLast(part.get(), field);
    }
  }
  return part->SerializeAsString();
}

// One element of a packed field with its own tag, from a packed run that holds
// nothing else.
std::string Unpacked(const FieldDescriptor* field, const std::string& packed) {
  using google::protobuf::internal::WireFormatLite;
  // Tag and length have one byte each.
  OARLOCK_CHECK(static_cast<size_t>(packed[1]) + 2 == packed.size());
  const uint32_t tag = WireFormatLite::MakeTag(
      field->number(),
      WireFormatLite::WireTypeForFieldType(
          static_cast<WireFormatLite::FieldType>(field->type())));
  return std::string(1, static_cast<char>(tag)) + packed.substr(2);
}

// The encodings of one field, in order, that together mean its value.
std::deque<std::string> Chunks(const Message& message,
                               const FieldDescriptor* field,
                               RandomSequence* r) {
  const Reflection* reflection = message.GetReflection();
  std::deque<std::string> chunks;
  if (field->is_repeated()) {
    const int size = reflection->FieldSize(message, field);
    for (int begin = 0; begin < size;) {
      int end = begin + 1 + static_cast<int>(r->Below(size - begin));
      if (!field->is_packed()) {
        end = begin + 1;
      } else if (r->Below(3) == 0) {
        end = begin + 1;
        chunks.push_back(
            Unpacked(field, OnlyField(message, field, begin, end)));
        begin = end;
        continue;
      }
      chunks.push_back(OnlyField(message, field, begin, end));
      begin = end;
    }
    return chunks;
  }
  if (field->message_type() != nullptr) {
    // Two parts, which a parser merges.
    const Message& whole = reflection->GetMessage(message, field);
    std::string parts[2];
    std::vector<const FieldDescriptor*> fields;
    whole.GetReflection()->ListFields(whole, &fields);
    for (const FieldDescriptor* inner : fields) {
      // All of one field goes to one part, so that it keeps its order.
      std::string& part = parts[r->Below(2)];
      for (const std::string& chunk : Chunks(whole, inner, r)) part += chunk;
    }
    if (r->Below(2) == 0) parts[1] += UnknownField(r);
    UnknownFieldSet framed;
    for (const std::string& part : parts) {
      framed.Clear();
      framed.AddLengthDelimited(field->number(), part);
      chunks.push_back(Serialized(framed));
    }
    return chunks;
  }
  // A scalar may be sent twice; the last one counts.
  if (r->Below(3) == 0) {
    UnknownFieldSet zero;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        zero.AddLengthDelimited(field->number(), "zz");
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        if (field->type() == FieldDescriptor::TYPE_FIXED64) {
          zero.AddFixed64(field->number(), 7);
          break;
        }
        [[fallthrough]];
      default:
        zero.AddVarint(field->number(), 0);
    }
    chunks.push_back(Serialized(zero));
  }
  chunks.push_back(OnlyField(message, field, 0, 0));
  return chunks;
}

}  // namespace

std::string EncodeUnusually(const Message& message, RandomSequence* r) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::vector<std::deque<std::string>> queues;
  for (const FieldDescriptor* field : fields) {
    queues.push_back(Chunks(message, field, r));
  }
  std::string bytes;
  while (!queues.empty()) {
    if (r->Below(4) == 0) bytes += UnknownField(r);
    std::deque<std::string>& queue = queues[r->Below(queues.size())];
    if (queue.empty()) {
      std::swap(queue, queues.back());
      queues.pop_back();
      continue;
    }
    bytes += queue.front();
    queue.pop_front();
  }
  return bytes;
}

std::string Damage(std::string bytes, RandomSequence* r) {
  const size_t at = r->Below(bytes.size() + 1);
  const size_t size = r->Below(std::min<size_t>(bytes.size() - at, 20) + 1);
  switch (r->Below(6)) {
    case 0:
      if (at < bytes.size()) bytes[at] ^= static_cast<char>(1 << r->Below(8));
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.insert(at, UnknownField(r));
      break;
    case 3:
      bytes.erase(at, size);
      break;
    case 4:
      bytes.insert(r->Below(bytes.size() + 1), bytes.substr(at, size));
      break;
    default:
      if (at < bytes.size()) bytes[at] = static_cast<char>((*r)());
  }
  return bytes;
}

}  // namespace oarlock::wire
