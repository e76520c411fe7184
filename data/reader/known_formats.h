// Files that are no text, by their first bytes.

#ifndef OARLOCK_DATA_READER_KNOWN_FORMATS_H_
#define OARLOCK_DATA_READER_KNOWN_FORMATS_H_

#include <string>
#include <string_view>

namespace oarlock::data {

// What a file that begins with `head` is, and what to do with it: "a tar
// archive; unpack it, or ...". Empty: it may be text. Of up to 8,000 bytes.
std::string KnownFormat(std::string_view head);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_KNOWN_FORMATS_H_
