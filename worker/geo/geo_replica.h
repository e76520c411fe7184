// What a geo worker trains on: its own copy of the rows that it touches and of
// the dense parameters, kept from epoch to epoch.

#ifndef OARLOCK_WORKER_GEO_GEO_REPLICA_H_
#define OARLOCK_WORKER_GEO_GEO_REPLICA_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "client/parameter_client.h"
#include "worker/config/table_plan.h"
#include "worker/epoch/merged_gradients.h"
#include "worker/geo/geo_dense.h"
#include "worker/geo/geo_rows.h"
#include "worker/step/step_buffer.h"

namespace oarlock::worker {

// A batch whose rows have been found.
struct GeoStep {
  std::shared_ptr<StepBuffer> buffer;
  // Per sparse input: the row of each of its keys.
  std::vector<std::vector<uint32_t>> rows;
};

// One thread at a time, but for what says otherwise.
//
// The order of calls in an interval: Refresh; Fetch, then Gather and Apply for
// each step of it, any number of times; TakeChanges, the push, Pushed. Between
// Pushed and the next step nothing is here that the servers do not have.
class GeoReplica {
 public:
  // `plan` is that of a geo job, of `num_workers`; `client` outlives this. A
  // table keeps about `rows_max` rows.
  static absl::StatusOr<std::unique_ptr<GeoReplica>> Create(
      const TablePlan& plan, uint32_t num_workers, uint64_t rows_max,
      client::ParameterClient* client);

  // Another one without rows and with fresh optimizer state. Thread-safe.
  std::unique_ptr<GeoReplica> NewEmpty() const;

  // Begins with these dense parameters, as the servers have them.
  void ResetDense(const client::DenseReplica& parameters) {
    dense_.Reset(parameters);
  }
  const float* dense() const { return dense_.values(); }

  // Learns which rows others have changed; the next Fetch pulls them.
  absl::Status Refresh();
  // When Refresh was called: versions of the first sparse table.
  const client::TableVersions& versions() const { return versions_; }

  // Finds the rows of all steps and pulls those that are not here.
  absl::Status Fetch(absl::Span<GeoStep> steps);
  // Copies the step's rows into its buffer. Several at once.
  void Gather(const GeoStep& step) const;

  // One step of training: the gradients in the buffers of `steps`, one per
  // compute thread, added key by key, and `dense_gradients`, null without dense
  // parameters. With `statistics` the keys are counted.
  void Apply(absl::Span<const GeoStep* const> steps,
             const float* dense_gradients, bool statistics);

  // Adds to `push` what Apply has changed since the last call, of rows, of
  // dense parameters or of both. The result keeps alive what the push points
  // to.
  std::shared_ptr<const void> TakeChanges(bool rows, bool dense,
                                          bool statistics,
                                          client::PushRequest* push);
  // The push was acknowledged.
  void Pushed();

  // These rows were changed by this worker, but not through this replica: the
  // next Fetch after a Refresh pulls them. Thread-safe.
  void MarkChanged(size_t input, const std::vector<Key>& keys);

  // Rows of all tables.
  uint64_t num_rows() const;

 private:
  struct Table {
    TableId id;
    GeoRows rows;
    client::ChangeMarks marks = {};
    // What the next Fetch pulls in any case.
    std::vector<Key> changed = {};
    MergedGradients merged = {};
  };

  // Of a sparse table: what norms learn has no shows and clicks.
  bool KeepsStatistics(size_t table) const;
  GeoReplica(const TablePlan& plan, const std::vector<optim::UpdateRule>& rules,
             uint32_t num_workers, uint64_t rows_max,
             client::ParameterClient* client);

  // Pulls these rows; the keys may repeat.
  absl::Status Pull(Table* table, absl::Span<const Key> keys);

  const TablePlan plan_;
  // One per table of the plan.
  const std::vector<optim::UpdateRule> rules_;
  const uint32_t num_workers_;
  const uint64_t rows_max_;
  client::ParameterClient* const client_;

  // Tables stay where they are.
  std::deque<Table> tables_;
  GeoDense dense_;
  client::TableVersions versions_;
  std::vector<uint32_t> row_scratch_;
  std::vector<Key> key_scratch_;

  absl::Mutex mutex_;
  // Per sparse input.
  std::vector<std::vector<Key>> marked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_GEO_GEO_REPLICA_H_
