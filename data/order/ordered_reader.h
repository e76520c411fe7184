// Batches of positions of an ordered epoch, read from the files when their turn
// comes.

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
  // Appends the example at `position`, which is ready; nothing where a line is
  // malformed or only a comment.
  virtual void Append(uint64_t position, Batch* batch) = 0;
};

// From the files: sorts what it is to read by its place there.
class FilePositions : public PositionReader {
 public:
  // At a time, hence in memory.
  static constexpr uint64_t kMaxPositions = 16384;

  // What is given by pointer outlives this.
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
  // Of positions begin_, begin_ + 1 ...: where they are in examples_.
  std::vector<uint32_t> places_;
  Batch examples_;
  // Scratch.
  std::vector<std::pair<uint64_t, uint32_t>> wanted_;
  std::vector<uint64_t> numbers_;
  std::vector<uint32_t> fetched_;
};

// Takes items of positions from a range source. Ranges of its batches are
// positions of the items' source. RangeSource::Done and the ends of batches are
// as BatchReader has them.
class OrderedReader : public BatchSource {
 public:
  // `ranges` outlives this.
  OrderedReader(std::unique_ptr<PositionReader> positions, RangeSource* ranges)
      : positions_(std::move(positions)), ranges_(ranges) {}

  absl::StatusOr<bool> Next(size_t batch_size, Batch* batch) override;

 private:
  absl::StatusOr<bool> Fill(size_t batch_size, Batch* batch);
  // Appends positions of *item_ until the batch is full or they are over.
  absl::Status ReadItem(size_t batch_size, Batch* batch);

  const std::unique_ptr<PositionReader> positions_;
  RangeSource* const ranges_;
  absl::Status status_;
  std::optional<DataRange> item_;
  uint64_t next_ = 0;   // position of *item_
  uint64_t ready_ = 0;  // positions before it are prepared
  bool ranges_are_over_ = false;
  // Items whose last example is in the batch handed out.
  std::vector<DataRange> finished_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_ORDERED_READER_H_
