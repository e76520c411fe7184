// A vector of a replica: parameters, gradients or running statistics.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_REPLICA_ARRAY_H_
#define OARLOCK_FLEET_DATA_PARALLEL_REPLICA_ARRAY_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "nn/math_backend.h"

namespace oarlock {

// Lies in the host's memory or in that of the backend that computes. One thread
// at a time, the backend's.
class ReplicaArray {
 public:
  // `size` zeros. In the memory of `backend`, which outlives it; null: in the
  // host's.
  ReplicaArray(nn::MathBackend* backend, size_t size)
      : backend_(backend), size_(size) {
    if (backend_ == nullptr) {
      on_host_.resize(size_);
      return;
    }
    in_backend_ = nn::BackendArray(backend_, size_ * sizeof(float));
    backend_->Fill(size_, 0, in_backend_.floats());
  }
  ReplicaArray(const ReplicaArray&) = delete;
  ReplicaArray& operator=(const ReplicaArray&) = delete;

  // Where it lies.
  absl::Span<float> span() {
    float* const data =
        backend_ == nullptr ? on_host_.data() : in_backend_.floats();
    return absl::MakeSpan(data, size_);
  }

  // Copies; from a backend they wait for what was queued.
  std::vector<float> Read() const {
    if (backend_ == nullptr) return on_host_;
    std::vector<float> values(size_);
    backend_->CopyOut(in_backend_.data(), size_ * sizeof(float), values.data());
    return values;
  }
  // REQUIRES: as many values.
  void Write(absl::Span<const float> values) {
    OARLOCK_CHECK(values.size() == size_);
    if (backend_ == nullptr) {
      std::copy(values.begin(), values.end(), on_host_.begin());
      return;
    }
    backend_->CopyIn(values.data(), size_ * sizeof(float), in_backend_.data());
  }

 private:
  nn::MathBackend* const backend_;
  const size_t size_;
  // One of the two.
  std::vector<float> on_host_;
  nn::BackendArray in_backend_;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_REPLICA_ARRAY_H_
