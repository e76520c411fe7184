// The functions of oarlock.h for sums: XXH3-64 of bytes that come in parts.

#include <xxhash.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "capi/calls.h"
#include "capi/include/oarlock/oarlock.h"

namespace oarlock::capi {
namespace {

// What an oarlock_sum is.
struct SumOfCaller {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  SumOfCaller() : state(XXH3_createState()) { XXH3_64bits_reset(state.get()); }

  absl::Mutex mutex;
  const std::unique_ptr<XXH3_state_t, Free> state ABSL_PT_GUARDED_BY(mutex);
};

// Calls run(sum).
template <typename Run>
oarlock_code WithSum(oarlock_sum handle, oarlock_error* error, Run run) {
  return Call(error, [&]() -> Outcome {
    const std::shared_ptr<SumOfCaller> found =
        HandlesOf<SumOfCaller>().Find(handle);
    if (found == nullptr) return ClosedHandle("sum", handle);
    return run(*found);
  });
}

}  // namespace
}  // namespace oarlock::capi

// NOLINTNEXTLINE(google-build-using-namespace): this file is its outside
using namespace oarlock::capi;

extern "C" {

oarlock_code oarlock_sum_create(oarlock_sum* sum, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    if (sum == nullptr) return NullArgument("sum");
    *sum = HandlesOf<SumOfCaller>().Add(std::make_shared<SumOfCaller>());
    return {};
  });
}

oarlock_code oarlock_sum_add(oarlock_sum sum, const void* bytes, size_t size,
                             oarlock_error* error) {
  return WithSum(sum, error, [&](SumOfCaller& found) -> Outcome {
    if (bytes == nullptr && size > 0) return NullArgument("bytes");
    absl::MutexLock lock(&found.mutex);
    if (size > 0) XXH3_64bits_update(found.state.get(), bytes, size);
    return {};
  });
}

oarlock_code oarlock_sum_value(oarlock_sum sum, uint64_t* value,
                               oarlock_error* error) {
  return WithSum(sum, error, [&](SumOfCaller& found) -> Outcome {
    if (value == nullptr) return NullArgument("value");
    absl::MutexLock lock(&found.mutex);
    *value = XXH3_64bits_digest(found.state.get());
    return {};
  });
}

oarlock_code oarlock_sum_free(oarlock_sum sum, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    const auto found = HandlesOf<SumOfCaller>().Remove(sum);
    return found == nullptr ? ClosedHandle("sum", sum) : Outcome();
  });
}

}  // extern "C"
