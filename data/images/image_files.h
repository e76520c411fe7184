// What the readers of image files share.

#ifndef OARLOCK_DATA_IMAGES_IMAGE_FILES_H_
#define OARLOCK_DATA_IMAGES_IMAGE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "data/reader/byte_source.h"

namespace oarlock::data {

// A file of images is there as it is or compressed, with a name that ends in
// one of kCompressionForms. `name` in all of these forms, for messages:
// "name[.gz|.xz|.zst]".
std::string FormsOf(absl::string_view name);

// The path of the first form of `name` that is in `folder`; as it is comes
// first, then in the order of kCompressionForms.
std::optional<std::string> FindImageFile(const std::string& folder,
                                         absl::string_view name);

// The paths of all files in `folder` whose names are forms of `prefix`,
// anything (also nothing) and `ending`, in natural order; of a file that is
// there in several forms the first as in FindImageFile.
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

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_FILES_H_
