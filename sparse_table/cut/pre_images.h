// Rows as they were at a freeze, put aside before they changed.
//
// A list without an index: a push only appends, some ten nanoseconds and the
// row's bytes; who saves the partition makes what it needs to look rows up, in
// its own time.

#ifndef OARLOCK_SPARSE_TABLE_CUT_PRE_IMAGES_H_
#define OARLOCK_SPARSE_TABLE_CUT_PRE_IMAGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sparse_table/rows/packed_rows.h"
#include "sparse_table/rows/row_space.h"

namespace oarlock::sparse_table {

// Guarded by the partition's lock: shared for const functions. An image never
// moves or changes. At most one packed row for each row of the partition at the
// freeze and each row promoted since.
class PreImages {
 public:
  explicit PreImages(const PackedRows& packing)
      : packing_(packing),
        block_rows_(std::max<size_t>(1, kBlockBytes / packing.row_bytes())) {}

  // Puts the row of this cell aside.
  void Add(RowRef ref, const std::byte* row) {
    if (refs_.size() == blocks_.size() * block_rows_) {
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(
          block_rows_ * packing_.row_bytes()));
    }
    packing_.Pack(row, At(refs_.size()));
    refs_.push_back(ref);
  }

  size_t size() const { return refs_.size(); }
  // The cell of image number i, in the order of Add; a cell may have several,
  // of different rows: the first is what it held at the freeze.
  RowRef ref(size_t i) const { return refs_[i]; }
  const std::byte* image(size_t i) const {
    return const_cast<PreImages*>(this)->At(i);
  }
  size_t heap_bytes() const {
    return blocks_.size() * block_rows_ * packing_.row_bytes() +
           refs_.capacity() * sizeof(RowRef);
  }

 private:
  static constexpr size_t kBlockBytes = 16 << 10;

  std::byte* At(size_t i) {
    return blocks_[i / block_rows_].get() +
           i % block_rows_ * packing_.row_bytes();
  }

  const PackedRows packing_;
  const size_t block_rows_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<RowRef> refs_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CUT_PRE_IMAGES_H_
