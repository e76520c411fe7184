// Fuzz target of the readers of image files, for libFuzzer and for
// images_replay_test.
//
// Input: the first byte chooses the format and how it is compressed (see
// below), the rest is the file. Aborts when a reader gives what its header
// rules out.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "data/images/cifar.h"
#include "data/images/idx.h"
#include "data/images/image_decoder.h"
#include "data/images/image_files.h"
#include "data/reader/compressed_source.h"

namespace oarlock {
namespace {

// Larger images take long to decode and teach nothing.
constexpr uint64_t kMaxDecodedPixels = 1 << 16;
// What a few bytes may become when they are decompressed.
constexpr uint64_t kMaxDecompressedBytes = 4 << 20;

// Gives the bytes in pieces of uneven sizes.
class BytesSource : public data::ByteSource {
 public:
  explicit BytesSource(std::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    piece_ = piece_ % 251 + 50;
    const size_t n = std::min({size, bytes_.size(), piece_});
    std::memcpy(data, bytes_.data(), n);
    bytes_.remove_prefix(n);
    return n;
  }
  absl::Status Seek(uint64_t) override {
    return absl::FailedPreconditionError("bytes cannot seek");
  }

 private:
  std::string_view bytes_;
  size_t piece_ = 0;
};

// A source that ends after some bytes: a bomb takes long to read to its end.
class FirstBytes : public data::ByteSource {
 public:
  FirstBytes(std::unique_ptr<data::ByteSource> source, uint64_t size)
      : source_(std::move(source)), rest_(size) {}
  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    const absl::StatusOr<size_t> n =
        source_->Read(data, std::min<uint64_t>(size, rest_));
    if (n.ok()) rest_ -= *n;
    return n;
  }
  absl::Status Seek(uint64_t offset) override { return source_->Seek(offset); }

 private:
  const std::unique_ptr<data::ByteSource> source_;
  uint64_t rest_;
};

void CheckRefusal(const absl::Status& status) {
  OARLOCK_CHECK(status.code() == absl::StatusCode::kDataLoss ||
                status.code() == absl::StatusCode::kResourceExhausted);
  OARLOCK_CHECK(status.message().find("the file") != absl::string_view::npos);
  OARLOCK_CHECK(status.message().find('\n') == absl::string_view::npos);
}

void ReadIdx(data::ByteSource* source, bool labels) {
  if (labels) {
    const auto read = data::ReadIdxLabels("the file", source);
    if (!read.ok()) return CheckRefusal(read.status());
    OARLOCK_CHECK(!read->empty());
    return;
  }
  const auto read = data::ReadIdxImages("the file", source);
  if (!read.ok()) return CheckRefusal(read.status());
  OARLOCK_CHECK(read->count >= 1 && read->height >= 1 && read->width >= 1);
  OARLOCK_CHECK(read->pixels.size() ==
                uint64_t{read->count} * read->height * read->width);
}

void ReadCifar(data::ByteSource* source, data::CifarKind kind) {
  data::CifarImages images;
  const absl::Status status =
      data::AppendCifar("the file", kind, source, &images);
  OARLOCK_CHECK(images.pixels.size() ==
                images.labels.size() * data::kCifarShape.size());
  for (const uint32_t label : images.labels) {
    OARLOCK_CHECK(label < static_cast<uint32_t>(kind));
  }
  if (!status.ok()) return CheckRefusal(status);
  OARLOCK_CHECK(!images.labels.empty());
}

void Decode(data::ByteSource* source, uint32_t shrink) {
  const auto bytes = data::ReadGrowing(source, kMaxDecompressedBytes);
  if (!bytes.ok()) return CheckRefusal(bytes.status());
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()),
                              bytes->size());
  const absl::string_view view(text.data(), text.size());
  const auto extent = data::ReadImageExtent("the file", view);
  if (!extent.ok()) return CheckRefusal(extent.status());
  OARLOCK_CHECK(extent->height >= 1 && extent->width >= 1);
  if (uint64_t{extent->height} * extent->width > kMaxDecodedPixels) return;
  const auto image = data::DecodeImage("the file", view, shrink);
  if (!image.ok()) return CheckRefusal(image.status());
  OARLOCK_CHECK(image->height >= 1 && image->height <= extent->height);
  OARLOCK_CHECK(image->width >= 1 && image->width <= extent->width);
  OARLOCK_CHECK(image->pixels.size() ==
                size_t{3} * image->height * image->width);
}

}  // namespace
}  // namespace oarlock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oarlock;  // NOLINT: the target is outside the namespace
  if (size == 0) return 0;
  constexpr data::Compression kCompressions[] = {
      data::Compression::kNone, data::Compression::kGzip,
      data::Compression::kXz, data::Compression::kNone};
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  FirstBytes source(
      data::Decompress(kCompressions[(data[0] >> 3) % 4], "the file",
                       std::make_unique<BytesSource>(bytes)),
      kMaxDecompressedBytes);
  switch (data[0] % 8) {
    case 0:
    case 1:
      ReadIdx(&source, /*labels=*/data[0] % 8 == 1);
      break;
    case 2:
      ReadCifar(&source, data::CifarKind::kCifar10);
      break;
    case 3:
      ReadCifar(&source, data::CifarKind::kCifar100);
      break;
    default:
      Decode(&source, 1u << (data[0] % 4));
  }
  return 0;
}
