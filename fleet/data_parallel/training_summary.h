// What a training of classes came to, for programs.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_TRAINING_SUMMARY_H_
#define OARLOCK_FLEET_DATA_PARALLEL_TRAINING_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "fleet/data_parallel/step_times.h"

namespace oarlock {

struct ClassificationSummary {
  // "mnist".
  std::string name;
  // "alone", "rank 0 of 2, collective", ...
  std::string group;
  uint32_t ranks = 1;
  // Of all ranks: images of a step, and of a second of training, reading
  // included and evaluation not.
  uint64_t batch_size = 0;
  double images_per_second = 0;
  struct Epoch {
    double train_accuracy = 0;
    double train_loss = 0;
    double test_accuracy = 0;
    double test_loss = 0;
    double seconds = 0;  // of training
  };
  // Of a step, as float32.
  uint64_t gradient_bytes = 0;
  // Of rank 0.
  StepTimes times;
  // Those of this run; a run that goes on from a checkpoint has fewer.
  std::vector<Epoch> epochs;
};

// Writes one JSON object to `path`: test_accuracy and test_loss of the last
// epoch, images_per_second, ranks and the rest by its names above, times as
// forward_seconds, backward_seconds, update_seconds, communication_seconds,
// exposed_communication_seconds, all of this run, and `gradients_final`, means
// of a step: from `first_byte` on `seconds` after backward's begin.
absl::Status WriteClassificationSummary(const ClassificationSummary& summary,
                                        const std::string& path);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_TRAINING_SUMMARY_H_
