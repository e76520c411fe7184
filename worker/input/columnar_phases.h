// How a phase over columnar files is divided among the compute threads of all
// workers, and in which order they read.

#ifndef OARLOCK_WORKER_INPUT_COLUMNAR_PHASES_H_
#define OARLOCK_WORKER_INPUT_COLUMNAR_PHASES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "data/batch.h"
#include "data/order/example_intervals.h"
#include "data/order/example_order.h"
#include "data/rows/group_order.h"
#include "data/rows/unit_memory.h"
#include "proto/config/job_config.pb.h"
#include "worker/input/columnar_data.h"
#include "worker/input/epoch_ranges.h"
#include "worker/input/leased_ranges.h"
#include "worker/report/progress_meter.h"

namespace oarlock::worker {

// The unit is the whole row group. Leased: whoever asks gets the next one, or
// the next window of a drawn order. Else unit g of an epoch is worker g mod
// n's, decided beforehand, and its compute threads take blocks of --batch_size
// rows in turns. One thread at a time.
class ColumnarPhases {
 public:
  // `trains`: in the order that --shuffle and --repeats_per_epoch say; else as
  // an evaluation, leased in the order of the files. `is_static`: every worker
  // has a share of its own. Pointers and references outlive this.
  ColumnarPhases(const v1::JobConfig& config, bool trains, bool is_static,
                 const ColumnarData* data, client::JobClient* job,
                 const Clock& clock);

  // InvalidArgument where columns cannot be read as the flags say.
  static absl::Status CheckConfig(const v1::JobConfig& config);

  // See TrainingData::StartPhase.
  absl::StatusOr<std::unique_ptr<EpochRanges>> Start(
      const PhaseId& phase, LeasedRanges::RunCompletion run_completion);

  // What reads rows of the files, for who reads them apart from a phase.
  EpochRanges::NewReader new_reader() const {
    return NewLeasedReader(/*order=*/nullptr);
  }

  // What --dataset memory has.
  uint64_t memory_bytes() const {
    return memory_ == nullptr ? 0 : memory_->bytes();
  }

 private:
  // Null: the order of the files.
  std::shared_ptr<const data::GroupOrder> OrderOf(uint32_t epoch) const;
  // As DefinePhaseRequest has it.
  std::string OrderText() const;
  // Of whoever gets a range.
  EpochRanges::NewReader NewLeasedReader(
      std::shared_ptr<const data::GroupOrder> order) const;
  absl::StatusOr<std::unique_ptr<EpochRanges>> StartLeased(
      const std::string& phase_name,
      std::shared_ptr<const data::GroupOrder> order,
      LeasedRanges::RunCompletion run_completion) const;
  absl::StatusOr<std::unique_ptr<EpochRanges>> StartStatic(
      const std::string& phase_name,
      std::shared_ptr<const data::GroupOrder> order) const;
  // Of each worker, what it reads.
  std::vector<std::vector<data::ExampleRange>> Shares(
      const data::GroupOrder* order) const;
  std::unique_ptr<data::RowStream> NewStream(
      std::shared_ptr<const data::GroupOrder> order,
      data::BadLines* bad_lines) const;
  void WarnOfFewUnits() const;

  const v1::JobConfig& config_;
  const bool trains_;
  const bool is_static_;
  const bool has_order_;
  const ColumnarData& data_;
  client::JobClient* const job_;
  const Clock& clock_;
  std::vector<uint64_t> unit_rows_;
  uint64_t num_rows_ = 0;
  // Null: --dataset queue.
  std::shared_ptr<data::UnitMemory> memory_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_INPUT_COLUMNAR_PHASES_H_
