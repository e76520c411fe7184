// Turns bytes into batches: reads the ranges that a RangeSource gives out and
// fills batches with their examples.

#ifndef OARLOCK_DATA_ORDER_EXAMPLE_READER_H_
#define OARLOCK_DATA_ORDER_EXAMPLE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/batch.h"
#include "data/batch_source.h"
#include "data/data_options.h"
#include "data/parse/bad_lines.h"
#include "data/parse/line_parser.h"
#include "data/range_source.h"
#include "data/reader/line_reader.h"

namespace oarlock::data {

// Thread-compatible: one thread has one reader; several readers may share the
// range source and the count of bad lines.
//
// Invariants:
//  1. Every line of a finished item is in a range of some batch, including
//     malformed lines and comments. So the ranges contain all lines that were
//     read, even skipped ones.
//  2. A batch is shorter than requested only at the end of the phase, and where
//     an item ends the batch (DataRange::ends_batch).
//  3. RangeSource::Done(item) is called by the first Next() after the one that
//     returned the last example of the item. A caller that calls Next() again
//     thereby declares that it has finished the batch before. An item of
//     unknown end (end == 0) is finished when its end has been read: one call
//     later when a batch ended exactly there. After an error, Done is not
//     called again.
//  4. Where unreadable data is skipped (DataOptions::leave_out_unreadable), an
//     item of such data counts as finished. Lines that were not read are in no
//     range.
class BatchReader : public BatchSource {
 public:
  // `options` must be valid; `files` are the sources that ranges number.
  // `ranges` and `bad_lines` must outlive the reader.
  BatchReader(const DataOptions& options, std::vector<std::string> files,
              RangeSource* ranges, BadLines* bad_lines);

  // Clears `batch` and fills it with up to `batch_size` examples (at least 1),
  // from one or more items. True: the batch has at least one example. False:
  // the phase is over and the batch is empty. An error names file and line: a
  // file that cannot be read, is not text or is shorter than the item says; too
  // many malformed lines; a pipe_command that fails; an error of the range
  // source. Later calls return the same error.
  absl::StatusOr<bool> Next(size_t batch_size, Batch* batch) override;

 private:
  absl::StatusOr<bool> Fill(size_t batch_size, Batch* batch);
  // Takes the next item and moves to its first line. item_ stays empty when
  // there is no other item.
  absl::Status StartItem();
  absl::Status MoveTo(const DataRange& item);
  absl::Status OpenSource(uint32_t source);
  // Called when the rest of the item cannot be read, because of `why`. Returns
  // `why`, or, where unreadable data is skipped, OK after closing lines_.
  absl::Status LeaveOut(uint32_t source, absl::Status why);
  // Reads lines of *item_ until the batch is full (false) or the item is
  // finished (true).
  absl::StatusOr<bool> ReadItem(size_t batch_size, Batch* batch);
  void ReportDone();

  const DataOptions options_;
  const std::vector<std::string> files_;
  RangeSource* const ranges_;
  BadLines* const bad_lines_;
  const std::unique_ptr<LineParser> parser_;

  absl::Status status_;
  std::optional<DataRange> item_;
  bool ranges_are_over_ = false;
  // Items whose last example is in the batch returned last.
  std::vector<DataRange> finished_;
  std::unique_ptr<LineReader> lines_;
  uint32_t source_ = 0;  // of lines_
  std::string reason_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_EXAMPLE_READER_H_
