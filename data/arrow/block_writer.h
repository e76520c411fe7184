// Record batches as blocks of features: finds columns by name, checks their
// types, transforms and hashes.

#ifndef OARLOCK_DATA_ARROW_BLOCK_WRITER_H_
#define OARLOCK_DATA_ARROW_BLOCK_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/arrow/c_data.h"
#include "data/arrow/column.h"
#include "data/features/feature_block.h"
#include "data/features/feature_list.h"

namespace oarlock::data {

// Thread-compatible. The memory of dictionaries that a batch has stays as it is
// until the next Bind: their values are hashed once.
class BlockWriter {
 public:
  // REQUIRES: features.is_numbered(), and no id is AS_IT_IS.
  explicit BlockWriter(FeatureList features);
  ~BlockWriter();

  // The batches that follow have this schema, that of a struct. InvalidArgument
  // names a column that is missing or has a type that its feature does not
  // take. Columns that no feature names are left alone.
  absl::Status Bind(const ArrowSchema& schema);

  // The bytes of the block of a batch. Keeps what Write needs; the batch stays
  // until then. InvalidArgument: too many keys, or another number of columns
  // than the schema has.
  absl::StatusOr<uint64_t> Prepare(const ArrowArray& batch);
  // Writes the block to `memory`, of so many bytes.
  void Write(const ArrowArray& batch, void* memory);

 private:
  // A column, found by the path of its name in the schema.
  struct Place;
  // A column of a batch.
  struct Column;
  class SlotColumn;

  absl::StatusOr<Place> Find(const ArrowSchema& schema, const std::string& name,
                             bool missing_is_null) const;
  Column ColumnOf(const Place& place, const ArrowArray& batch) const;
  // Labels, weights and dense features, and which rows are bad.
  void WriteNumbers(const ArrowArray& batch, const FeatureBlockArrays& to);
  void WriteKeys(const ArrowArray& batch, const FeatureBlockArrays& to);

  const FeatureList features_;
  std::unique_ptr<Place> label_;
  std::unique_ptr<Place> weight_;
  std::unique_ptr<Place> group_;
  std::vector<Place> dense_;
  std::vector<std::unique_ptr<SlotColumn>> slots_;
  // Of the schema.
  int64_t num_columns_ = 0;
  bool has_sequences_ = false;
  bool has_key_weights_ = false;
  // Of the batch that was prepared.
  FeatureBlockShape shape_;
  std::vector<uint32_t> lengths_;  // [rows, num_slots], where there are lists
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ARROW_BLOCK_WRITER_H_
