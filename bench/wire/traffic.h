// What a worker does with one batch of keys, through the product's client: for
// the programs that measure it against real servers.

#ifndef OARLOCK_BENCH_WIRE_TRAFFIC_H_
#define OARLOCK_BENCH_WIRE_TRAFFIC_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "bench/common/workload.h"
#include "client/key_batch.h"
#include "client/parameter_client.h"
#include "nn/math_backend.h"
#include "proto/v1/table.pb.h"

namespace oarlock_bench {

inline constexpr oarlock::TableId kRows(1);

// Ends the program when something went wrong.
void Require(const absl::Status& status);

// Table kRows: rows of kDim floats under adagrad.
oarlock::v1::TableConfig RowsConfig();

// What one batch needs on its way, reused from batch to batch.
struct InFlightBatch {
  explicit InFlightBatch(size_t num_keys)
      : rows(num_keys * kDim),
        merged(num_keys * kDim),
        expanded(num_keys * kDim) {}

  oarlock::client::KeyBatch keys;
  std::vector<float> rows;      // of the distinct keys
  std::vector<float> merged;    // gradients of the distinct keys
  std::vector<float> expanded;  // rows of all occurrences
};

// Pulls and pushes of table kRows. One thread at a time.
class Traffic {
 public:
  // Of batches of up to `num_keys` keys. `client` outlives this.
  Traffic(oarlock::client::ParameterClient* client, size_t num_keys);

  // `done` is called in a thread of the client's.
  void StartPull(const std::shared_ptr<InFlightBatch>& in_flight,
                 std::function<void()> done);
  // With the next push, or when it is flushed.
  void EnqueuePull(const std::shared_ptr<InFlightBatch>& in_flight,
                   std::function<void()> done);
  void Flush(const std::shared_ptr<InFlightBatch>& in_flight) {
    client_->Flush(in_flight.get());
  }
  void Pull(const std::shared_ptr<InFlightBatch>& in_flight);
  void StartPush(const std::shared_ptr<InFlightBatch>& in_flight,
                 const float* gradients, std::function<void()> done);
  void Push(const std::shared_ptr<InFlightBatch>& in_flight,
            const float* gradients);

  // in_flight->rows to in_flight->expanded, and gradients() to
  // in_flight->merged.
  void Expand(InFlightBatch* in_flight);
  void Merge(InFlightBatch* in_flight);

  // One for each occurrence of a key.
  const float* gradients() const { return gradients_.data(); }

 private:
  oarlock::nn::RowBags Bags(const InFlightBatch& in_flight) const;

  oarlock::client::ParameterClient* const client_;
  const std::unique_ptr<oarlock::nn::MathBackend> backend_;
  const std::vector<float> gradients_;
};

}  // namespace oarlock_bench

#endif  // OARLOCK_BENCH_WIRE_TRAFFIC_H_
