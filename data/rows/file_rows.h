// Rows of columnar files in the order of the files, read by a process beside
// this one.

#ifndef OARLOCK_DATA_ROWS_FILE_ROWS_H_
#define OARLOCK_DATA_ROWS_FILE_ROWS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/batch.h"
#include "data/features/feature_list.h"
#include "data/parse/bad_lines.h"
#include "data/range_source.h"
#include "data/rows/reader_process.h"
#include "data/rows/row_stream.h"
#include "proto/v1/reader.pb.h"

namespace oarlock::data {

struct RowSourceOptions {
  // Numbered, and no type AS_IT_IS.
  FeatureList features;
  ReaderOptions reader;
  // What sources number.
  std::vector<v1::ListedFile> files;
  // What is decoded at a time: whole row groups, ascending by (source, begin).
  // Together they are all rows.
  std::vector<DataRange> units;
  // A phase with more bad rows than this fails.
  int64_t bad_rows_max = 100;
};

// Positions are rows of the files. A unit is decoded once where its rows are
// taken one after the other; who begins in the middle of it has what lies
// before decoded, too.
//
// A process that ends, or is silent, is started anew and goes on at the row
// that it had reached, kMaxRestarts times for a unit.
class FileRows : public RowStream {
 public:
  static constexpr int kMaxRestarts = 3;

  // Pointer arguments outlive this object.
  FileRows(const RowSourceOptions* options, BadLines* bad_lines)
      : options_(*options), bad_lines_(*bad_lines) {}

  // Errors name the file: it has changed since it was listed, it has too many
  // bad rows, a process cannot read it.
  absl::Status Take(uint32_t source, uint64_t begin, uint64_t end,
                    Batch* batch) override;

  struct BadRow {
    uint64_t row = 0;
    std::string reason;
  };
  // The same, but bad rows are told, ascending, and not counted.
  absl::Status Load(uint32_t source, uint64_t begin, uint64_t end, Batch* batch,
                    std::vector<BadRow>* bad);
  absl::Status Count(uint32_t source, const BadRow& bad);

  const RowSourceOptions& options() const { return options_; }

 private:
  // The next row will be that one.
  void Seek(uint32_t source, uint64_t row);
  // Makes a block current that has row next_.
  absl::Status NextBlock(Batch* batch);
  absl::Status TryNextBlock();
  void FreeBlock();
  // The process reads nothing any more.
  void StopReading();
  const std::string& path() const { return options_.files[source_].path(); }

  const RowSourceOptions& options_;
  BadLines& bad_lines_;
  std::unique_ptr<ReaderProcess> process_;
  // Where rows are taken: next_ of source_, up to the unit's end_. Nowhere: the
  // two are equal.
  uint32_t source_ = 0;
  uint64_t next_ = 0;
  uint64_t end_ = 0;
  int restarts_ = 0;
  // The process reads on there.
  bool is_reading_ = false;
  std::optional<ReaderProcess::Block> block_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ROWS_FILE_ROWS_H_
