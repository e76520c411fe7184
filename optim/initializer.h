// Initial values that depend on (seed, table, key or position) alone: the same
// whoever asks first, on any number of servers and partitions.
//
// Value number i of a stream s is
//
//   uniform   (u - 2^23) / 2^23 * range, in [-range, range)
//   normal    RandomNormal(s, i) * stddev
//   constant  the constant; nothing configured: 0
//
// where u is the highest 24 bits of one half of RandomBits(s, i / 2): the low
// half for even i, the high half for odd i (a pull of many keys without rows
// computes as many rows of these, so they are made two at a time).
//
// The stream of the table is t = DeriveSeed(seed, table id). The value number
// p of a dense vector is value p of stream t. Float i of the sparse row of a
// key is value i of stream DeriveSeed(t, key).

#ifndef OARLOCK_OPTIM_INITIALIZER_H_
#define OARLOCK_OPTIM_INITIALIZER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/random.h"
#include "base/types.h"
#include "proto/v1/table.pb.h"

namespace oarlock::optim {

// Immutable and thread-safe.
class InitialValues {
 public:
  // InvalidArgument when the range or the standard deviation is negative, or a
  // number is not finite. `seed` is the job's, as in TableConfig.
  static absl::StatusOr<InitialValues> Create(const v1::Initializer& config,
                                              uint64_t seed, TableId table);

  // Writes the initial embedding of a sparse row, values[dim].
  void FillRow(Key key, float* values, size_t dim) const {
    Fill(DeriveSeed(stream_, static_cast<uint64_t>(key)), 0, values, dim);
  }

  // Writes values[n]: those at positions [first, first + n) of a dense vector.
  void FillRange(uint64_t first, float* values, size_t n) const {
    Fill(stream_, first, values, n);
  }

 private:
  enum class Kind { kConstant, kUniform, kNormal };

  InitialValues(Kind kind, float scale, uint64_t stream)
      : kind_(kind), scale_(scale), stream_(stream) {}

  void Fill(uint64_t stream, uint64_t first, float* values, size_t n) const;

  Kind kind_;
  // Range, standard deviation or the constant.
  float scale_;
  uint64_t stream_;
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_INITIALIZER_H_
