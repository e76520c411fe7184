// oneDNN starts an OpenMP team per calling thread, one thread per core, unless
// that thread has said otherwise.

#ifndef OARLOCK_WORKER_NN_ONE_THREAD_H_
#define OARLOCK_WORKER_NN_ONE_THREAD_H_

namespace oarlock {

// Limits OpenMP to one thread in the calling thread, for good.
void ComputeInThisThreadOnly();

}  // namespace oarlock

#endif  // OARLOCK_WORKER_NN_ONE_THREAD_H_
