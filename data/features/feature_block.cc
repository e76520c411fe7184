#include "data/features/feature_block.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kAlignment = 64;
// Of rows and of keys: no product of them overflows.
constexpr uint64_t kMaxCount = uint64_t{1} << 31;
constexpr uint64_t kMaxColumns = uint64_t{1} << 17;

template <typename T>
void Append(const T* from, uint64_t count, std::vector<T>* to) {
  if (count > 0) to->insert(to->end(), from, from + count);
}

absl::Status NoBlock(const char* what) {
  return absl::DataLossError(
      absl::StrCat("a reader process has written what is no block of the "
                   "job's features: ",
                   what));
}

}  // namespace

FeatureBlockArrays FeatureBlockArrays::At(const FeatureBlockShape& shape,
                                          void* memory, uint64_t* bytes) {
  FeatureBlockArrays arrays;
  uint64_t offset = 0;
  const auto place = [&](auto** pointer, bool is_there, uint64_t count) {
    if (!is_there) return;
    using Element = std::remove_reference_t<decltype(**pointer)>;
    if (memory != nullptr) {
      *pointer =
          reinterpret_cast<Element*>(static_cast<char*>(memory) + offset);
    }
    offset += count * sizeof(Element);
    offset = (offset + kAlignment - 1) / kAlignment * kAlignment;
  };
  place(&arrays.header, true, 1);
  place(&arrays.bad, true, shape.num_rows);
  place(&arrays.labels, true, shape.num_rows);
  place(&arrays.weights, shape.has_weights, shape.num_rows);
  place(&arrays.groups, shape.has_groups, shape.num_rows);
  place(&arrays.dense, shape.num_dense > 0, shape.num_rows * shape.num_dense);
  place(&arrays.offsets, shape.has_offsets,
        shape.num_rows * shape.num_slots + 1);
  place(&arrays.keys, true, shape.num_keys);
  place(&arrays.key_weights, shape.has_key_weights, shape.num_keys);
  place(&arrays.reason, true, FeatureBlockHeader::kReasonBytes);
  *bytes = offset;
  return arrays;
}

absl::StatusOr<FeatureBlockView> FeatureBlockView::Open(
    absl::Span<const char> memory, const DataSchema& schema) {
  if (memory.size() < sizeof(FeatureBlockHeader)) return NoBlock("too short");
  // A copy: what is checked is what is used.
  FeatureBlockHeader header;
  std::memcpy(&header, memory.data(), sizeof header);
  const FeatureBlockShape& shape = header.shape;
  if (header.magic != FeatureBlockHeader::kMagic) return NoBlock("its mark");
  if (shape.num_dense != static_cast<uint32_t>(schema.num_dense) ||
      shape.num_slots != static_cast<uint32_t>(schema.num_slots)) {
    return NoBlock("other features");
  }
  if (shape.num_rows > kMaxCount || shape.num_keys > kMaxCount ||
      shape.num_dense > kMaxColumns || shape.num_slots > kMaxColumns) {
    return NoBlock("too many rows");
  }
  uint64_t bytes = 0;
  const FeatureBlockArrays arrays =
      FeatureBlockArrays::At(shape, const_cast<char*>(memory.data()), &bytes);
  if (bytes != header.bytes || bytes > memory.size())
    return NoBlock("its size");
  if (header.reason_bytes > FeatureBlockHeader::kReasonBytes ||
      header.num_bad > shape.num_rows) {
    return NoBlock("its counts");
  }
  const uint64_t cells = shape.num_rows * shape.num_slots;
  if (!shape.has_offsets) {
    if (shape.num_keys != cells) return NoBlock("its keys");
  } else {
    const bool ascend =
        std::is_sorted(arrays.offsets, arrays.offsets + cells + 1);
    if (!ascend || arrays.offsets[0] != 0 ||
        arrays.offsets[cells] != shape.num_keys) {
      return NoBlock("its offsets");
    }
  }
  return FeatureBlockView(header, arrays);
}

void FeatureBlockView::AppendTo(uint64_t begin, uint64_t end,
                                Batch* batch) const {
  while (begin < end) {
    const uint8_t* const from = arrays_.bad + begin;
    const uint8_t* const last = arrays_.bad + end;
    const uint8_t* const stop =
        std::find_if(from, last, [](uint8_t bad) { return bad != 0; });
    const uint64_t next = begin + static_cast<uint64_t>(stop - from);
    if (next > begin) AppendRun(begin, next, batch);
    begin = next + 1;
  }
}

void FeatureBlockView::AppendRun(uint64_t begin, uint64_t end,
                                 Batch* batch) const {
  const FeatureBlockShape& shape = header_.shape;
  const uint64_t count = end - begin;
  batch->num_examples += count;
  Append(arrays_.labels + begin, count, &batch->labels);
  Append(arrays_.dense + begin * shape.num_dense, count * shape.num_dense,
         &batch->dense);
  const uint64_t first_cell = begin * shape.num_slots;
  const uint64_t num_cells = count * shape.num_slots;
  if (!shape.has_offsets) {
    Append(arrays_.keys + first_cell, num_cells, &batch->keys);
    return;
  }
  const uint32_t* const offsets = arrays_.offsets + first_cell;
  const auto base = static_cast<uint32_t>(batch->keys.size());
  if (batch->offsets.empty()) batch->offsets.push_back(0);
  for (uint64_t cell = 1; cell <= num_cells; ++cell) {
    batch->offsets.push_back(base + offsets[cell] - offsets[0]);
  }
  const uint64_t num_keys = offsets[num_cells] - offsets[0];
  Append(arrays_.keys + offsets[0], num_keys, &batch->keys);
  if (shape.has_key_weights) {
    Append(arrays_.key_weights + offsets[0], num_keys, &batch->weights);
  }
}

}  // namespace oarlock::data
