// Rows of columnar files in an order that is drawn.

#ifndef OARLOCK_DATA_ROWS_WINDOW_ROWS_H_
#define OARLOCK_DATA_ROWS_WINDOW_ROWS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "data/batch.h"
#include "data/rows/file_rows.h"
#include "data/rows/group_order.h"
#include "data/rows/row_stream.h"
#include "data/rows/unit_memory.h"

namespace oarlock::data {

// Positions of source 0 are those of a GroupOrder. The units of one window are
// in memory at a time.
class WindowRows : public RowStream {
 public:
  WindowRows(std::unique_ptr<FileRows> rows,
             std::shared_ptr<const GroupOrder> order,
             std::shared_ptr<UnitMemory> memory)
      : rows_(std::move(rows)),
        order_(std::move(order)),
        memory_(std::move(memory)),
        schema_(rows_->options().features.schema()) {}

  // Errors of FileRows, and ResourceExhausted where a window takes more than
  // the memory's limit.
  absl::Status Take(uint32_t source, uint64_t begin, uint64_t end,
                    Batch* batch) override;

 private:
  struct Part {
    // Of the window's rows, its first one.
    uint64_t begin = 0;
    uint32_t source = 0;
    uint64_t first_row = 0;
    std::shared_ptr<const LoadedUnit> unit;
  };

  absl::Status Enter(uint32_t window, Batch* batch);
  // A row of the window.
  absl::Status Append(uint64_t row, Batch* batch);

  const std::unique_ptr<FileRows> rows_;
  const std::shared_ptr<const GroupOrder> order_;
  const std::shared_ptr<UnitMemory> memory_;
  const DataSchema schema_;
  // The window that is in memory.
  std::optional<uint32_t> window_;
  std::vector<Part> parts_;
  std::vector<uint32_t> window_rows_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ROWS_WINDOW_ROWS_H_
