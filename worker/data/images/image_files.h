// What the readers of image files share.

#ifndef OARLOCK_WORKER_DATA_IMAGES_IMAGE_FILES_H_
#define OARLOCK_WORKER_DATA_IMAGES_IMAGE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/data/byte_source.h"

namespace oarlock {

// What may stand behind the name of a file of images, for messages.
inline constexpr absl::string_view kImageSuffixes = "[.gz|.xz|.zst]";

// The path of `name`, `name`.gz, `name`.xz or `name`.zst in `folder`, the first
// of them that is there.
std::optional<std::string> FindImageFile(const std::string& folder,
                                         absl::string_view name);

// The paths of all files in `folder` whose names are `prefix`, anything (also
// nothing), `ending` and perhaps .gz, .xz or .zst, in natural order; of a file
// that is there in several forms the first as in FindImageFile.
std::vector<std::string> FindImageFiles(const std::string& folder,
                                        absl::string_view prefix,
                                        absl::string_view ending);

bool IsImageFolder(const std::string& path);

// NotFound: the folder, or what should be in it, is not there. `missing` says
// what was looked for, `source` where to get it.
absl::Status NoImageData(const std::string& folder, absl::string_view missing,
                         absl::string_view source);

// DataLoss: "'name': what; legal is legal; get the file again".
absl::Status BadImageFile(const std::string& name, absl::string_view what,
                          absl::string_view legal);

// Fills `data` with the next `size` bytes; how many there were. Less only at
// the end.
absl::StatusOr<size_t> ReadUpTo(ByteSource* source, uint8_t* data, size_t size);

// Reads up to `size` bytes and forgets them; how many there were.
absl::StatusOr<uint64_t> SkipUpTo(ByteSource* source, uint64_t size);

// The next bytes, up to `size` of them, less only at the end. Takes memory for
// what there is, not for what a damaged header claims.
absl::StatusOr<std::vector<uint8_t>> ReadGrowing(ByteSource* source,
                                                 uint64_t size);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_DATA_IMAGES_IMAGE_FILES_H_
