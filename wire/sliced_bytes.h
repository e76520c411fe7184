// Bytes of a received message where the transport left them.

#ifndef OARLOCK_WIRE_SLICED_BYTES_H_
#define OARLOCK_WIRE_SLICED_BYTES_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace oarlock::wire {

// A run of bytes of a received message. It may straddle slices and start at
// any address. Copies share the slices. Immutable; thread-safe.
class SlicedBytes {
 public:
  SlicedBytes() = default;
  // All bytes of `slices`.
  explicit SlicedBytes(std::vector<grpc::Slice> slices);
  // Bytes [begin, begin + size) of the concatenation of `slices`.
  // REQUIRES: they exist.
  SlicedBytes(absl::Span<const grpc::Slice> slices, size_t begin, size_t size);
  // Owns `bytes`: what the generated parser had to copy.
  explicit SlicedBytes(std::vector<char> bytes);

  // Bytes [begin, begin + size) of this run. REQUIRES: they exist.
  SlicedBytes Part(size_t begin, size_t size) const;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Copies bytes [begin, begin + size) to `to`. REQUIRES: they exist.
  void CopyTo(size_t begin, size_t size, void* to) const;

  // Bytes [begin, begin + size): the received memory where it is contiguous,
  // else a copy in `scratch`. Valid while both this and `scratch` are.
  // REQUIRES: they exist.
  std::string_view View(size_t begin, size_t size, std::string* scratch) const;

  // The received memory from byte `begin` on, as far as it is contiguous.
  // REQUIRES: there is a byte.
  std::string_view RunFrom(size_t begin) const;

  // The same bytes as a message of their own. Shares the memory.
  grpc::ByteBuffer ToByteBuffer() const;

  // The elements [begin, begin + count) of an array of T: the received memory
  // where it is contiguous and aligned, else a copy in `scratch`, which is
  // grown as needed. Valid while both this and `scratch` are.
  // REQUIRES: they exist.
  template <typename T>
  const T* Elements(size_t begin, size_t count, std::vector<T>* scratch) const;

 private:
  struct Piece {
    size_t begin = 0;  // within the message
    const char* data = nullptr;
    size_t size = 0;
    size_t slice = 0;  // which one holds it
  };
  // A whole message: pieces and what keeps their memory alive.
  struct Storage {
    std::vector<Piece> pieces;  // none is empty
    std::vector<grpc::Slice> slices;
    std::vector<char> owned;
  };

  // The memory of [begin, begin + size) if one piece holds it, else null.
  const char* Contiguous(size_t begin, size_t size) const;
  // The index of the piece that holds byte `begin` of this run.
  size_t PieceAt(size_t begin) const;

  // Shared by all runs of one message: they outlive each other in any order.
  std::shared_ptr<const Storage> storage_;
  size_t begin_ = 0;  // within the message
  size_t size_ = 0;
};

template <typename T>
const T* SlicedBytes::Elements(size_t begin, size_t count,
                               std::vector<T>* scratch) const {
  const char* memory = Contiguous(begin * sizeof(T), count * sizeof(T));
  if (memory != nullptr &&
      reinterpret_cast<uintptr_t>(memory) % alignof(T) == 0) {
    return reinterpret_cast<const T*>(memory);
  }
  if (scratch->size() < count) scratch->resize(count);
  CopyTo(begin * sizeof(T), count * sizeof(T), scratch->data());
  return scratch->data();
}

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_SLICED_BYTES_H_
