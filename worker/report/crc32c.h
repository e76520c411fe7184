// The checksum of event files.

#ifndef OARLOCK_WORKER_REPORT_CRC32C_H_
#define OARLOCK_WORKER_REPORT_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace oarlock::worker {

// CRC-32C (Castagnoli; RFC 3720 B.4): reflected polynomial 0x82f63b78, start
// and final value inverted. A table of bytes: a few records a second need no
// more.
uint32_t Crc32c(absl::string_view bytes);

// As a file of records stores it: turned right by 15 bits, plus 0xa282ead8.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_REPORT_CRC32C_H_
