// Reads batches of positions of an ordered epoch, each when it is needed.

#ifndef OARLOCK_DATA_ORDER_ORDERED_READER_H_
#define OARLOCK_DATA_ORDER_ORDERED_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/batch_source.h"
#include "data/order/example_fetcher.h"
#include "data/order/example_order.h"
#include "data/range_source.h"

namespace oarlock::data {

// Gives examples by positions, some at a time. Thread-compatible.
class PositionReader {
 public:
  virtual ~PositionReader() = default;
  // Makes positions [begin, end') ready, with end' <= end and end' > begin;
  // returns end'. REQUIRES: begin < end.
  virtual absl::StatusOr<uint64_t> Prepare(uint64_t begin, uint64_t end) = 0;
  // Appends the example at `position`, which must be ready. Appends nothing
  // where the line is malformed or only a comment.
  virtual void Append(uint64_t position, Batch* batch) = 0;
};

// Reads positions from the files, sorted by their places in the files.
class FilePositions : public PositionReader {
 public:
  // The most positions read at a time, hence held in memory.
  static constexpr uint64_t kMaxPositions = 16384;

  // Pointer arguments outlive this object.
  FilePositions(const DataOptions& options, std::vector<std::string> files,
                const SourceIndex* index,
                std::shared_ptr<const ExampleOrder> order, BadLines* bad_lines);
  absl::StatusOr<uint64_t> Prepare(uint64_t begin, uint64_t end) override;
  void Append(uint64_t position, Batch* batch) override;

 private:
  const DataSchema schema_;
  ExampleFetcher fetcher_;
  const std::shared_ptr<const ExampleOrder>
      order_;  // shared with other readers
  OrderCursor cursor_;
  uint64_t begin_ = 0;
  // The places in examples_ of positions begin_, begin_ + 1 ...
  std::vector<uint32_t> places_;
  Batch examples_;
  // Scratch.
  std::vector<std::pair<uint64_t, uint32_t>> wanted_;
  std::vector<uint64_t> numbers_;
  std::vector<uint32_t> fetched_;
};

// Takes items of positions from a range source. The ranges of its batches are
// positions of the items' source. RangeSource::Done is called, and batches end,
// as for BatchReader.
class OrderedReader : public BatchSource {
 public:
  // `ranges` outlives this object.
  OrderedReader(std::unique_ptr<PositionReader> positions, RangeSource* ranges)
      : positions_(std::move(positions)), ranges_(ranges) {}

  absl::StatusOr<bool> Next(size_t batch_size, Batch* batch) override;

 private:
  absl::StatusOr<bool> Fill(size_t batch_size, Batch* batch);
  // Appends positions of *item_ until the batch is full or the item ends.
  absl::Status ReadItem(size_t batch_size, Batch* batch);

  const std::unique_ptr<PositionReader> positions_;
  RangeSource* const ranges_;
  absl::Status status_;
  std::optional<DataRange> item_;
  uint64_t next_ = 0;   // position of *item_
  uint64_t ready_ = 0;  // positions before this one are prepared
  bool ranges_are_over_ = false;
  // Items whose last example is in the batch returned last.
  std::vector<DataRange> finished_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_ORDERED_READER_H_
