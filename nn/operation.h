// What operations of a math backend have in common.

#ifndef OARLOCK_NN_OPERATION_H_
#define OARLOCK_NN_OPERATION_H_

namespace oarlock::nn {

enum class Activation { kNone, kRelu };

// What an operation does with the array that it writes.
enum class Write {
  kOverwrite,  // what was there is not read, not even a NaN
  kAdd,        // the result is added
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_OPERATION_H_
