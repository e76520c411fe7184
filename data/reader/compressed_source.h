// Reads files that may be compressed, and decompresses them.

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

// The compression by the end of the name; kNone for any other end.
Compression CompressionOf(const std::string& path);

// Decompresses `compressed` while it is read. Several streams in a row, as `cat
// a.gz b.gz` makes them, are read one after the other. `name` is the file's
// name for errors. Read returns DataLoss where bytes are damaged, missing or
// left over at the end. It returns ResourceExhausted where an .xz needs more
// than kMaxXzMemoryBytes or a .zst has a window larger than
// kMaxZstdWindowBytes. After an error, every Read returns the error. Seek
// returns FailedPrecondition, except for kNone.
std::unique_ptr<ByteSource> Decompress(Compression compression,
                                       std::string name,
                                       std::unique_ptr<ByteSource> compressed);

// A file of `xz -9` takes 65 MiB to decompress; a damaged header may require
// any amount.
inline constexpr uint64_t kMaxXzMemoryBytes = uint64_t{256} << 20;
// The largest window that zstd decompresses without a special option. Levels up
// to 19 stay below it; `zstd --long=28` does not.
inline constexpr int kMaxZstdWindowLog = 27;
inline constexpr uint64_t kMaxZstdWindowBytes = uint64_t{1}
                                                << kMaxZstdWindowLog;

// OpenFile, then Decompress by the end of the name. Errors as OpenFile.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenDecompressed(
    const std::string& path);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_COMPRESSED_SOURCE_H_
