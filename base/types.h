// Strong types for the words of Oarlock's glossary: a worker index cannot be
// given where a server index is wanted.

#ifndef OARLOCK_BASE_TYPES_H_
#define OARLOCK_BASE_TYPES_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <utility>

namespace oarlock {

// An integer that only compares and converts with its own kind. Arithmetic is
// done on value(), so that it is seen.
template <typename Tag, typename Int>
class StrongInt {
 public:
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Int value) : value_(value) {}

  constexpr Int value() const { return value_; }
  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;
  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }

  template <typename H>
  friend H AbslHashValue(H state, StrongInt x) {
    return H::combine(std::move(state), x.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, StrongInt x) {
    return out << x.value_;
  }

 private:
  Int value_ = 0;
};

// Names a row of a sparse table. Any 64-bit value is legal. An enum, so that
// an array of keys has the layout of the wire's fixed64 array.
enum class Key : uint64_t {};

// A table of the job; assigned by the model, the same on every server.
using TableId = StrongInt<struct TableIdTag, uint32_t>;
// High bits of Mix(key): the unit of placement, locking and recovery.
using PartitionIndex = StrongInt<struct PartitionIndexTag, uint32_t>;
// A block of a dense table.
using BlockIndex = StrongInt<struct BlockIndexTag, uint32_t>;
using ServerIndex = StrongInt<struct ServerIndexTag, uint32_t>;
using WorkerIndex = StrongInt<struct WorkerIndexTag, uint32_t>;
// Grows with each incarnation of a process; what carries an older one is
// rejected. 0 means none: for a worker generation, a reader.
using Generation = StrongInt<struct GenerationTag, uint64_t>;
// Names a push of one worker generation: 1, 2, 3 ...
using Sequence = StrongInt<struct SequenceTag, uint64_t>;

}  // namespace oarlock

#endif  // OARLOCK_BASE_TYPES_H_
