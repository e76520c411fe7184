// Which Oarlock this is.

#ifndef OARLOCK_BASE_PROCESS_VERSION_H_
#define OARLOCK_BASE_PROCESS_VERSION_H_

namespace oarlock {

// MAJOR.MINOR.PATCH. What speaks and reads what is told by versions of their
// own: kProtocolVersion, kCheckpointFormatVersion.
inline constexpr char kOarlockVersion[] = "0.1.0";

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_VERSION_H_
