// Arrays of a response, written into the memory that is sent.

#ifndef OARLOCK_PSERVER_SERVICE_RESPONSE_VALUES_H_
#define OARLOCK_PSERVER_SERVICE_RESPONSE_VALUES_H_

#include <grpc/slice.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "proto/v1/parameter.pb.h"
#include "wire/value_format.h"

namespace oarlock::pserver {

// Memory that is sent as it is. Never inlined in the slice itself, so that it
// stays where it is and is aligned for floats.
class ResponseArray {
 public:
  explicit ResponseArray(size_t bytes)
      : slice_(grpc_slice_malloc_large(bytes)) {
    OARLOCK_CHECK(reinterpret_cast<uintptr_t>(data()) % alignof(float) == 0);
  }
  ~ResponseArray() { grpc_slice_unref(slice_); }
  ResponseArray(const ResponseArray&) = delete;
  ResponseArray& operator=(const ResponseArray&) = delete;

  uint8_t* data() { return GRPC_SLICE_START_PTR(slice_); }
  // The first `bytes` of it; shares the memory.
  grpc::Slice slice(size_t bytes) const { return slice(0, bytes); }
  // Bytes [begin, end) of it.
  grpc::Slice slice(size_t begin, size_t end) const {
    return grpc::Slice(grpc_slice_sub(slice_, begin, end),
                       grpc::Slice::STEAL_REF);
  }

 private:
  grpc_slice slice_;
};

// Floats of a response, in the requested format.
class ResponseValues {
 public:
  // Room for `max_values`.
  ResponseValues(v1::ValueFormat format, size_t max_values)
      : format_(format),
        array_(max_values *
               (format == v1::FLOAT32 ? sizeof(float) : sizeof(uint16_t))) {}

  // Calls `fill` to write `n` floats after those that are there. They stay if
  // it returns true.
  template <typename Fill>
  bool Append(size_t n, Fill fill) {
    if (format_ == v1::FLOAT32) {
      if (!fill(reinterpret_cast<float*>(array_.data()) + size_)) return false;
    } else {
      thread_local std::vector<float> wide;
      wide.resize(n);
      if (!fill(wide.data())) return false;
      wire::NarrowValues(
          format_, wide,
          absl::MakeSpan(reinterpret_cast<uint16_t*>(array_.data()) + size_,
                         n));
    }
    size_ += n;
    return true;
  }
  grpc::Slice slice() const {
    return array_.slice(
        size_ * (format_ == v1::FLOAT32 ? sizeof(float) : sizeof(uint16_t)));
  }

 private:
  const v1::ValueFormat format_;
  ResponseArray array_;
  size_t size_ = 0;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_RESPONSE_VALUES_H_
