// Which commit this program was built from.

#ifndef OARLOCK_BASE_PROCESS_BUILD_COMMIT_H_
#define OARLOCK_BASE_PROCESS_BUILD_COMMIT_H_

namespace oarlock {

// 40 hexadecimal digits, which release builds alone stamp in; empty in others,
// so that a commit makes nothing be compiled anew.
const char* BuildCommit();

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_BUILD_COMMIT_H_
