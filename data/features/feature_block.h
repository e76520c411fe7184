// Rows of a file as the engine wants them, in memory that a reader process and
// a worker both map: one writes, then the other one reads.
//
// Layout, little-endian, each array at a multiple of 64 bytes:
//
//   FeatureBlockHeader
//   bad         [rows] bytes: 1 where the row is no example
//   labels      [rows] float32
//   weights     [rows] float32      where the features have a weight
//   groups      [rows] uint64       where they have a group
//   dense       [rows, num_dense] float32
//   offsets     [rows * num_slots + 1] uint32   where they have a sequence
//   keys        [num_keys] uint64
//   key_weights [num_keys] float32  where sequences are pooled in several ways
//   reason      text: why the first bad row is one
//
// Without offsets every slot of every row has one key: [rows, num_slots].

#ifndef OARLOCK_DATA_FEATURES_FEATURE_BLOCK_H_
#define OARLOCK_DATA_FEATURES_FEATURE_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "data/batch.h"

namespace oarlock::data {

// What a block has, beside its rows.
struct FeatureBlockShape {
  uint64_t num_rows = 0;
  uint64_t num_keys = 0;
  uint32_t num_dense = 0;
  uint32_t num_slots = 0;
  bool has_weights = false;
  bool has_groups = false;
  bool has_offsets = false;
  bool has_key_weights = false;
};

struct FeatureBlockHeader {
  static constexpr uint64_t kMagic = 0x314b4c424c52414f;  // "OARLBLK1"
  static constexpr size_t kReasonBytes = 512;

  uint64_t magic;
  uint64_t bytes;
  FeatureBlockShape shape;
  uint64_t num_bad;
  uint32_t first_bad_row;
  uint32_t reason_bytes;
};

// Pointers into a block. Those of arrays that it has not are null.
struct FeatureBlockArrays {
  FeatureBlockHeader* header = nullptr;
  uint8_t* bad = nullptr;
  float* labels = nullptr;
  float* weights = nullptr;
  Key* groups = nullptr;
  float* dense = nullptr;
  uint32_t* offsets = nullptr;
  Key* keys = nullptr;
  float* key_weights = nullptr;
  char* reason = nullptr;

  // Where the arrays of a block of this shape lie, from `memory` on; null: only
  // `bytes` is wanted.
  static FeatureBlockArrays At(const FeatureBlockShape& shape, void* memory,
                               uint64_t* bytes);
};

// A block that another process has written. The memory outlives it, and stays
// as it is.
class FeatureBlockView {
 public:
  // DataLoss: the bytes are no block of these features.
  static absl::StatusOr<FeatureBlockView> Open(absl::Span<const char> memory,
                                               const DataSchema& schema);

  uint64_t num_rows() const { return header_.shape.num_rows; }
  uint64_t num_bad() const { return header_.num_bad; }
  bool IsBad(uint64_t row) const { return arrays_.bad[row] != 0; }
  // Why the first bad row is one, and which it is.
  std::string_view reason() const {
    return {arrays_.reason, header_.reason_bytes};
  }
  uint64_t first_bad_row() const { return header_.first_bad_row; }

  // Appends those of rows [begin, end) that are not bad. Ranges stay as they
  // are. REQUIRES: begin <= end <= num_rows().
  void AppendTo(uint64_t begin, uint64_t end, Batch* batch) const;

 private:
  FeatureBlockView(const FeatureBlockHeader& header,
                   const FeatureBlockArrays& arrays)
      : header_(header), arrays_(arrays) {}
  // The same of rows of which none is bad.
  void AppendRun(uint64_t begin, uint64_t end, Batch* batch) const;

  // As it was when it was checked.
  FeatureBlockHeader header_;
  FeatureBlockArrays arrays_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_FEATURES_FEATURE_BLOCK_H_
