// Units of columnar files that are in memory, decoded.

#ifndef OARLOCK_DATA_ROWS_UNIT_MEMORY_H_
#define OARLOCK_DATA_ROWS_UNIT_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/batch.h"
#include "data/rows/file_rows.h"

namespace oarlock::data {

// Immutable.
struct LoadedUnit {
  // Without those that are bad.
  Batch rows;
  // Ascending; rows of the file.
  std::vector<FileRows::BadRow> bad;
  // Bytes of both, about.
  uint64_t bytes = 0;
};

// One thread at a time, but for bytes().
class UnitMemory {
 public:
  // `advice`, the end of the line that refuses more than `bytes_max`: which
  // flag to change.
  UnitMemory(uint64_t bytes_max, std::string advice)
      : bytes_max_(bytes_max), advice_(std::move(advice)) {}

  // Frees all others.
  void KeepOnly(const std::vector<uint32_t>& units);
  // Unit number `unit`, read by `rows` unless it is there. ResourceExhausted
  // before more than the limit is taken. What was decoded is added to
  // `num_decoded_rows`.
  absl::StatusOr<std::shared_ptr<const LoadedUnit>> Load(
      uint32_t unit, FileRows* rows, uint64_t* num_decoded_rows);

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  const uint64_t bytes_max_;
  const std::string advice_;
  std::atomic<uint64_t> bytes_ = 0;
  std::map<uint32_t, std::shared_ptr<const LoadedUnit>> units_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ROWS_UNIT_MEMORY_H_
