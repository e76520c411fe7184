// Functions that the readers of image files share.

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

// A file of images is uncompressed, or compressed with a name that ends in one
// of kCompressionForms. FormsOf returns `name` in all of these forms, for
// messages: "name[.gz|.xz|.zst]".
std::string FormsOf(absl::string_view name);

// The path of the first form of `name` that is in `folder`. The uncompressed
// form comes first, then the others in the order of kCompressionForms.
std::optional<std::string> FindImageFile(const std::string& folder,
                                         absl::string_view name);

// The paths of all files in `folder` whose names are forms of `prefix`, any
// text (also none) and `ending`, in natural order. A file that exists in
// several forms is returned once, in the form that FindImageFile chooses.
std::vector<std::string> FindImageFiles(const std::string& folder,
                                        absl::string_view prefix,
                                        absl::string_view ending);

bool IsImageFolder(const std::string& path);

// A NotFound error: the folder, or what should be in it, does not exist.
// `missing` names what was not found, `source` where to get it.
absl::Status NoImageData(const std::string& folder, absl::string_view missing,
                         absl::string_view source);

// DataLoss: "'name': what; legal is legal; get the file again".
absl::Status BadImageFile(const std::string& name, absl::string_view what,
                          absl::string_view legal);

// Fills `data` with the next `size` bytes and returns how many were read: fewer
// only at the end.
absl::StatusOr<size_t> ReadUpTo(ByteSource* source, uint8_t* data, size_t size);

// Reads up to `size` bytes, drops them and returns how many there were.
absl::StatusOr<uint64_t> SkipUpTo(ByteSource* source, uint64_t size);

// The next `size` bytes; fewer only at the end. Allocates memory for the bytes
// that exist, not for the number that a damaged header claims.
absl::StatusOr<std::vector<uint8_t>> ReadGrowing(ByteSource* source,
                                                 uint64_t size);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_IMAGES_IMAGE_FILES_H_
