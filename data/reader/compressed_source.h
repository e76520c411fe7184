// Files that may be compressed, read as what they were before.

#ifndef OARLOCK_DATA_READER_COMPRESSED_SOURCE_H_
#define OARLOCK_DATA_READER_COMPRESSED_SOURCE_H_

#include <array>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/reader/byte_source.h"

namespace oarlock::data {

enum class Compression { kNone, kGzip, kXz, kZstd };

// How the names of compressed files end, and how the files begin.
struct CompressionForm {
  absl::string_view suffix;
  Compression compression;
  absl::string_view first_bytes;
};
inline constexpr std::array<CompressionForm, 3> kCompressionForms = {
    {{".gz", Compression::kGzip, "\x1f\x8b"},
     {".xz", Compression::kXz,
      "\xfd"
      "7zXZ"},
     {".zst", Compression::kZstd, "\x28\xb5\x2f\xfd"}}};

// By the end of the name; kNone where it is none of these.
Compression CompressionOf(const std::string& path);

// What `compressed` holds, decompressed while it is read; several streams in
// a row, as `cat a.gz b.gz` makes them, are one after the other. `name` stands
// in errors. Read gives DataLoss where bytes are damaged, missing or left over
// at the end, ResourceExhausted where an .xz wants more than
// kMaxXzMemoryBytes or a .zst looks back over more than kMaxZstdWindowBytes; it
// stays failed then. Seek is FailedPrecondition but for kNone.
std::unique_ptr<ByteSource> Decompress(Compression compression,
                                       std::string name,
                                       std::unique_ptr<ByteSource> compressed);

// `xz -9` takes 65 MiB to read; a damaged header may ask for anything.
inline constexpr uint64_t kMaxXzMemoryBytes = uint64_t{256} << 20;
// What every reader of zstd must take without being asked, and no more: levels
// up to 19 stay below, `zstd --long=28` does not.
inline constexpr int kMaxZstdWindowLog = 27;
inline constexpr uint64_t kMaxZstdWindowBytes = uint64_t{1}
                                                << kMaxZstdWindowLog;

// Both of the above. Errors as OpenFile.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenDecompressed(
    const std::string& path);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_COMPRESSED_SOURCE_H_
