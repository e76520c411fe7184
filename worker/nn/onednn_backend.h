// The CPU's backend: products by oneDNN, everything else by Highway
// (cpu_kernels.h). Both choose their instructions at run time.
//
// Results do not depend on how many threads compute beside, and repeat bit
// for bit on one machine; on another instruction set they may differ by
// rounding.

#ifndef OARLOCK_WORKER_NN_ONEDNN_BACKEND_H_
#define OARLOCK_WORKER_NN_ONEDNN_BACKEND_H_

#include <memory>

#include "worker/nn/math_backend.h"

namespace oarlock {

// Each product runs in the thread that asks for it: the backend limits
// OpenMP to one thread in each thread that calls it, for good.
std::unique_ptr<MathBackend> NewOneDnnBackend();

}  // namespace oarlock

#endif  // OARLOCK_WORKER_NN_ONEDNN_BACKEND_H_
