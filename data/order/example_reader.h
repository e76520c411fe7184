// Bytes to batches: reads the ranges that a RangeSource gives out and fills
// batches with their examples.

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
//  1. Every line of a finished item lies in a range of some batch, malformed
//     ones and comments too, so the ranges tell what has been read whatever was
//     skipped.
//  2. A batch is shorter than asked for only at the end of the phase, and where
//     an item ends the batch (DataRange::ends_batch).
//  3. RangeSource::Done(item) is called by the first Next() after the one that
//     handed out the last example of the item: whoever calls Next() again says
//     that it is through with the batch before. An item of unknown end
//     (end == 0) is finished when its end has been seen, one call later when a
//     batch ended exactly there. After an error nothing more is Done.
//  4. Where what is unreadable is left out (DataOptions), an item of it is
//     finished, and lines that were not read are in no range.
class BatchReader : public BatchSource {
 public:
  // `options` must be valid; `files` are the sources that ranges number.
  // `ranges` and `bad_lines` must outlive the reader.
  BatchReader(const DataOptions& options, std::vector<std::string> files,
              RangeSource* ranges, BadLines* bad_lines);

  // Clears `batch` and fills it with up to `batch_size` examples (at least 1),
  // from as many items as that takes. True: the batch has an example or more.
  // False: the phase is over and the batch is empty. An error names file and
  // line: a file that cannot be read, is not text or is shorter than the item
  // says; too many malformed lines; a pipe_command that fails; an error of
  // the range source. Later calls return the same error.
  absl::StatusOr<bool> Next(size_t batch_size, Batch* batch) override;

 private:
  absl::StatusOr<bool> Fill(size_t batch_size, Batch* batch);
  // The reader stands at the first line of the next item, or there is none.
  absl::Status StartItem();
  absl::Status MoveTo(const DataRange& item);
  absl::Status OpenSource(uint32_t source);
  // The rest of the item cannot be read: `why`, or OK where it is left out, and
  // there are no lines_ then.
  absl::Status LeaveOut(uint32_t source, absl::Status why);
  // Reads lines of *item_ until the batch is full or the item is finished;
  // true in the latter case.
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
  // Items whose last example is in the batch handed out.
  std::vector<DataRange> finished_;
  std::unique_ptr<LineReader> lines_;
  uint32_t source_ = 0;  // of lines_
  std::string reason_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_EXAMPLE_READER_H_
