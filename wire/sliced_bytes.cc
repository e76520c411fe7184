#include "wire/sliced_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace oarlock::wire {

SlicedBytes::SlicedBytes(std::vector<grpc::Slice> slices) {
  auto storage = std::make_shared<Storage>();
  storage->slices = std::move(slices);
  storage->pieces.reserve(storage->slices.size());
  // Short slices hold their bytes inside the Slice object, so addresses are
  // taken where the slices will stay.
  for (const grpc::Slice& slice : storage->slices) {
    if (slice.size() == 0) continue;
    storage->pieces.push_back(
        {.begin = size_,
         .data = reinterpret_cast<const char*>(slice.begin()),
         .size = slice.size(),
         .slice = static_cast<size_t>(&slice - storage->slices.data())});
    size_ += slice.size();
  }
  storage_ = std::move(storage);
}

SlicedBytes::SlicedBytes(absl::Span<const grpc::Slice> slices, size_t begin,
                         size_t size)
    : SlicedBytes(std::vector<grpc::Slice>(slices.begin(), slices.end())) {
  OARLOCK_CHECK(begin <= size_ && size <= size_ - begin);
  begin_ = begin;
  size_ = size;
}

SlicedBytes::SlicedBytes(std::vector<char> bytes) {
  auto storage = std::make_shared<Storage>();
  storage->owned = std::move(bytes);
  size_ = storage->owned.size();
  if (size_ > 0) {
    storage->pieces.push_back(
        {.begin = 0, .data = storage->owned.data(), .size = size_});
  }
  storage_ = std::move(storage);
}

SlicedBytes SlicedBytes::Part(size_t begin, size_t size) const {
  OARLOCK_CHECK(begin <= size_ && size <= size_ - begin);
  SlicedBytes part;
  part.storage_ = storage_;
  part.begin_ = begin_ + begin;
  part.size_ = size;
  return part;
}

size_t SlicedBytes::PieceAt(size_t begin) const {
  const std::vector<Piece>& pieces = storage_->pieces;
  const auto after = std::upper_bound(
      pieces.begin(), pieces.end(), begin_ + begin,
      [](size_t at, const Piece& piece) { return at < piece.begin; });
  return static_cast<size_t>(after - pieces.begin()) - 1;
}

const char* SlicedBytes::Contiguous(size_t begin, size_t size) const {
  OARLOCK_CHECK(begin <= size_ && size <= size_ - begin);
  // Any address does for no bytes; null would mean "not contiguous".
  static constexpr char kNoBytes alignas(16) = 0;
  if (size == 0) return &kNoBytes;
  const Piece& piece = storage_->pieces[PieceAt(begin)];
  const size_t offset = begin_ + begin - piece.begin;
  return size <= piece.size - offset ? piece.data + offset : nullptr;
}

std::string_view SlicedBytes::RunFrom(size_t begin) const {
  OARLOCK_CHECK(begin < size_);
  const Piece& piece = storage_->pieces[PieceAt(begin)];
  const size_t offset = begin_ + begin - piece.begin;
  return {piece.data + offset, std::min(size_ - begin, piece.size - offset)};
}

void SlicedBytes::CopyTo(size_t begin, size_t size, void* to) const {
  OARLOCK_CHECK(begin <= size_ && size <= size_ - begin);
  if (size == 0) return;
  char* out = static_cast<char*>(to);
  size_t index = PieceAt(begin);
  size_t offset = begin_ + begin - storage_->pieces[index].begin;
  while (size > 0) {
    const Piece& piece = storage_->pieces[index++];
    const size_t count = std::min(size, piece.size - offset);
    std::memcpy(out, piece.data + offset, count);
    out += count;
    size -= count;
    offset = 0;
  }
}

grpc::ByteBuffer SlicedBytes::ToByteBuffer() const {
  std::vector<grpc::Slice> slices;
  size_t rest = size_;
  for (size_t i = rest == 0 ? 0 : PieceAt(0); rest > 0; ++i) {
    const Piece& piece = storage_->pieces[i];
    const size_t offset = begin_ > piece.begin ? begin_ - piece.begin : 0;
    const size_t count = std::min(rest, piece.size - offset);
    if (storage_->slices.empty()) {
      slices.emplace_back(piece.data + offset, count);
    } else {
      slices.push_back(
          storage_->slices[piece.slice].sub(offset, offset + count));
    }
    rest -= count;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string_view SlicedBytes::View(size_t begin, size_t size,
                                   std::string* scratch) const {
  if (const char* memory = Contiguous(begin, size)) return {memory, size};
  scratch->resize(size);
  CopyTo(begin, size, scratch->data());
  return *scratch;
}

}  // namespace oarlock::wire
