// Makes the list of data files from what a user writes.

#ifndef OARLOCK_DATA_READER_FILE_LIST_H_
#define OARLOCK_DATA_READER_FILE_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace oarlock::data {

// Expands paths and patterns between commas or blanks, in their order:
//   a pattern (with *, ? or [) to the files that match it, in natural order;
//   a folder to the files in it whose names do not start with ".", likewise;
//   any other path to itself.
// Natural order compares runs of digits as numbers: part-2 before part-10. A
// file that appears twice, by whatever paths, is kept once, at its first place.
// All processes with the same folder get the same list.
//
// What exists as it is written is taken as it is, with its commas and blanks:
// an entry as a whole, else what is between its commas.
//
// NotFound when one of the paths and patterns matches nothing.
// FailedPrecondition when a named pipe, a socket or a device is among the
// files. InvalidArgument when the list is empty.
absl::StatusOr<std::vector<std::string>> ExpandFileList(
    absl::Span<const std::string> entries);
absl::StatusOr<std::vector<std::string>> ExpandFileList(
    const std::string& list);

// Whether `a` comes before `b` in natural order. A strict weak order in which
// only equal strings are equivalent.
bool NaturalLess(std::string_view a, std::string_view b);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_FILE_LIST_H_
