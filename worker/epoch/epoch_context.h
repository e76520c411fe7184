// What every phase works with. All of it outlives the phase.

#ifndef OARLOCK_WORKER_EPOCH_EPOCH_CONTEXT_H_
#define OARLOCK_WORKER_EPOCH_EPOCH_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "client/job_client.h"
#include "client/parameter_client.h"
#include "data/batch_source.h"
#include "data/data_options.h"
#include "data/order/example_reader.h"
#include "data/parse/bad_lines.h"
#include "data/range_source.h"
#include "models/model.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/table.pb.h"
#include "worker/config/training_mode.h"
#include "worker/cut/cut_marker.h"
#include "worker/dense/dense_parameters.h"
#include "worker/epoch/step_gate.h"
#include "worker/report/progress_meter.h"

namespace oarlock::worker {

class GeoReplica;

struct EpochContext {
  const v1::JobConfig* config = nullptr;
  const models::Model* model = nullptr;
  client::ParameterClient* parameters = nullptr;
  client::JobClient* job = nullptr;
  DenseParameters* dense = nullptr;
  ProgressMeter* progress = nullptr;
  Clocks clocks = {};
  // Through it a phase that trains pushes; others leave it null.
  CutMarker* cuts = nullptr;
  // Geo mode; else null.
  GeoReplica* geo = nullptr;
  // One per sparse input of the model.
  std::vector<TableId> sparse_tables;
  // Id 0: the model has no dense parameters.
  TableId dense_table;
  // The dense table's.
  v1::OptimizerConfig dense_optimizer;

  // The phase itself.
  PhaseId phase;
  // phase.Name(), of which pushes cover examples.
  std::string phase_name;
  data::DataOptions data;
  std::vector<std::string> files;
  // Makes what reads items that are not lines of the files; null where they
  // are.
  std::function<std::unique_ptr<data::BatchSource>(
      size_t compute_thread, data::RangeSource*, data::BadLines*)>
      new_reader;
  // Of an epoch of all workers, about; 0: not known.
  uint64_t num_examples = 0;
  // One per compute thread; the same one may stand there several times.
  std::vector<data::RangeSource*> ranges;
  // Which step a compute thread may begin; null: any.
  StepGate* gate = nullptr;

  // Compute threads that may run at a time, each with a dense copy: this
  // worker's share of the cores, but at most its threads and at least as many
  // as a quorum waits for. Those beyond that read and exchange ahead instead of
  // computing on older parameters.
  int num_dense_copies = 1;

  // Measures stages, and pauses.
  const Clock& clock() const { return *clocks.monotonic; }

  // What reads the items of a source, a compute thread's or a push
  // completion's, whose number is 0. Both outlive it.
  std::unique_ptr<data::BatchSource> NewReader(
      size_t compute_thread, data::RangeSource* source,
      data::BadLines* bad_lines) const {
    if (new_reader != nullptr) {
      return new_reader(compute_thread, source, bad_lines);
    }
    return std::make_unique<data::BatchReader>(data, files, source, bad_lines);
  }

  // Whether pushes carry shows and clicks.
  bool PushesStatistics() const { return config->accessor() == "ctr"; }

  // Whether the gradients of all compute threads make one push.
  bool MergesThreads() const {
    const TrainingMode mode = ModeOf(*config);
    return mode == TrainingMode::kSync || mode == TrainingMode::kHalfAsync;
  }

  // The factor that makes a step's gradient that of the job's loss: a mean is
  // taken over the nominal batches of a push, so that a short last batch weighs
  // what its examples weigh.
  float GradientScale() const {
    if (config->loss() == "sum") return 1;
    const float scale = 1.0f / static_cast<float>(config->batch_size());
    return MergesThreads() ? scale / static_cast<float>(config->thread_num())
                           : scale;
  }
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_EPOCH_CONTEXT_H_
