// Types that the operations of a math backend share.

#ifndef OARLOCK_NN_OPERATION_H_
#define OARLOCK_NN_OPERATION_H_

namespace oarlock::nn {

enum class Activation { kNone, kRelu };

// What an operation does with the array that it writes.
enum class Write {
  kOverwrite,  // the old contents are not read and may be NaN
  kAdd,        // the result is added to the contents
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_OPERATION_H_
