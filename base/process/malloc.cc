#include "base/process/malloc.h"

#include <features.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace oarlock {

void KeepFreedMemory() {
#if defined(__GLIBC__)
  // Buffers below this come from the heap, not from a mapping of their own.
  // glibc accepts no more than 32 MiB.
  constexpr int kMmapThresholdBytes = 32 << 20;
  // The heap's top is given back only above this: in effect never.
  constexpr int kTrimThresholdBytes = 2047 << 20;
  // The heap grows in steps of this.
  constexpr int kTopPadBytes = 64 << 20;
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  mallopt(M_TRIM_THRESHOLD, kTrimThresholdBytes);
  mallopt(M_TOP_PAD, kTopPadBytes);
#endif
}

}  // namespace oarlock
