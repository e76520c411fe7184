#include "sparse_table/rows/packed_rows.h"

#include <xxhash.h>

namespace oarlock::sparse_table {

uint64_t PackedRows::Digest(const std::byte* packed) const {
  const bool extended = HeaderOf(packed).extended();
  return XXH3_64bits_withSeed(packed + kKeyOffset, row_bytes_ - kKeyOffset,
                              extended ? 1 : 0);
}

}  // namespace oarlock::sparse_table
