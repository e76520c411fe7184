// What every pass over data works with. All of it outlives the pass.

#ifndef OARLOCK_WORKER_PASS_CONTEXT_H_
#define OARLOCK_WORKER_PASS_CONTEXT_H_

#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "proto/job_config.pb.h"
#include "proto/table.pb.h"
#include "worker/client/job_client.h"
#include "worker/client/parameter_client.h"
#include "worker/cut_marker.h"
#include "worker/data/bad_lines.h"
#include "worker/data/data_options.h"
#include "worker/data/work_source.h"
#include "worker/mode/dense_parameters.h"
#include "worker/models/model.h"
#include "worker/progress_meter.h"

namespace oarlock {

class GeoReplica;

struct PassContext {
  const v1::JobConfig* config = nullptr;
  const Model* model = nullptr;
  ParameterClient* parameters = nullptr;
  JobClient* job = nullptr;
  DenseParameters* dense = nullptr;
  ProgressMeter* progress = nullptr;
  // Through it a pass that trains pushes; others leave it null.
  CutMarker* cuts = nullptr;
  // Geo mode; else null.
  GeoReplica* geo = nullptr;
  // One per sparse input of the model.
  std::vector<TableId> sparse_tables;
  // Id 0: the model has no dense parameters.
  TableId dense_table;
  // The dense table's.
  v1::OptimizerConfig dense_optimizer;

  // The pass itself.
  PhaseId phase;
  // phase.Work(), of which pushes cover examples.
  std::string work_name;
  DataOptions data;
  std::vector<std::string> files;
  // One per lane; the same one may stand there several times.
  std::vector<WorkSource*> work;

  // Lanes that may compute at a time: this worker's share of the cores. More
  // lanes than that read and exchange ahead instead of computing on older
  // parameters.
  int compute_slots = 1;

  // Whether pushes carry shows and clicks.
  bool PushesStatistics() const { return config->accessor() == "ctr"; }

  // The factor that makes a step's gradient that of the job's loss: a mean is
  // taken over the nominal batch, so that a short last batch weighs what its
  // examples weigh.
  float GradientScale() const {
    return config->loss() == "sum" ? 1.0f : 1.0f / config->batch_size();
  }
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_PASS_CONTEXT_H_
