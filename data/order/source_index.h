// Where the examples of line-based files are stored, and how an epoch over them
// is cut into ranges.

#ifndef OARLOCK_DATA_ORDER_SOURCE_INDEX_H_
#define OARLOCK_DATA_ORDER_SOURCE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/data_options.h"
#include "data/order/example_intervals.h"
#include "data/range_source.h"

namespace oarlock::data {

// How many blocks the next range of an epoch has when `blocks_left` are left,
// at least 1: one in all but very large epochs. There ranges are longer at
// first and shrink towards the end, so that all workers end together and there
// are less than 2^20 ranges of up to 10^11 blocks.
constexpr uint64_t BlocksOfRange(uint64_t blocks_left) {
  constexpr uint64_t kShareOfRange = 65536;
  return blocks_left < kShareOfRange ? 1 : blocks_left / kShareOfRange;
}

// The lines of a list of files. Every line counts as an example, even a
// malformed one: lines are not parsed. Immutable, so thread-safe.
class SourceIndex {
 public:
  struct File {
    uint64_t num_examples = 0;
    // Bytes of the decompressed text.
    uint64_t size_bytes = 0;
    // Where examples 0, block_examples, 2 * block_examples ... start; empty for
    // a file without seek.
    std::vector<uint64_t> block_offsets;
    // Neither compressed nor piped through a command.
    bool can_seek = true;
    // num_examples is known.
    bool is_counted = true;
  };

  SourceIndex(uint64_t block_examples, std::vector<File> files);

  uint64_t block_examples() const { return block_examples_; }
  const std::vector<File>& files() const { return files_; }
  uint64_t total_examples() const { return first_example_.back(); }
  // Whether all files are counted.
  bool is_counted() const;
  // The file that holds `example` of the concatenation of all files. REQUIRES:
  // example < total_examples().
  size_t FileOf(uint64_t example) const;
  // Number of examples before file number `file`, which is at most the number
  // of files.
  uint64_t first_example(size_t file) const { return first_example_[file]; }
  uint64_t total_bytes() const;

  // The whole input, in order. Items have BlocksOfRange blocks of
  // block_examples examples; the last item of each file may be shorter. A file
  // without seek is one item, of unknown end where the file was not counted. An
  // empty file has no item.
  std::vector<DataRange> Items() const;

  // Examples [begin, end) of the concatenation of all files: one item for each
  // file that holds some of them. end is at most total_examples().
  std::vector<DataRange> ItemsOf(uint64_t begin, uint64_t end) const;
  // The item of `range`, which numbers examples within one file.
  DataRange ItemOf(const ExampleRange& range) const;

 private:
  const uint64_t block_examples_;
  const std::vector<File> files_;
  // [files + 1]: number of examples before each file; the last element is the
  // total.
  std::vector<uint64_t> first_example_;
};

// Whether to count files without seek. Counting them takes decompressing them
// or running the command.
enum class UnseekableRule { kCount, kLeave };

// Reads all files once, up to `num_threads` (at least 1) at a time, at the
// speed of the page cache. `block_examples` is at least 1. Returns an error
// when a file cannot be read or is not text (CheckText in line_reader.h).
absl::StatusOr<SourceIndex> BuildSourceIndex(
    const std::vector<std::string>& files, uint64_t block_examples,
    int num_threads, UnseekableRule rule = UnseekableRule::kCount,
    const DataOptions& options = DataOptions());

// For inputs whose lengths are not known (pipe_command): one item for each
// file, to its end.
std::vector<DataRange> WholeFileItems(size_t num_files);

// Gives out a list of items in order, to any number of readers of a local run.
// Thread-safe.
class SharedList : public RangeSource {
 public:
  explicit SharedList(std::vector<DataRange> items);
  absl::StatusOr<std::optional<DataRange>> Next() override;
  void Done(const DataRange&) override {}

 private:
  const std::vector<DataRange> items_;
  absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The static split of a deterministic run. The concatenation of all files is
// one stream of examples. Block g of it is [g * block, (g + 1) * block); the
// last block may be shorter. Reader i of n gets the blocks with g % n == i, in
// order. With the block equal to the batch size, round r of n readers has the
// same examples as round r of one reader with n times the block. A batch ends
// with its block (DataRange::ends_batch). So a malformed line makes one batch
// shorter and does not move other batches; only a block without any good line
// does. Some readers may end one round before others. In a resumed epoch,
// examples that were trained before are skipped, and so is a block that has
// only such examples. With the same number of readers, the remaining rounds are
// those of the interrupted epoch.
//
// Thread-safe. A split is for one epoch; the next epoch needs a new split.
class InterleavedSplit : public RangeSource {
 public:
  struct Options {
    uint64_t block_examples = 0;  // at least 1
    uint64_t reader_index = 0;    // below num_readers
    uint64_t num_readers = 1;
    // Skips the examples after the last full round: they do not give every
    // reader a full block.
    bool drop_tail = false;
    // Examples to skip; null: no examples. Must outlive the split.
    const ExampleIntervals* covered = nullptr;
  };
  // `index` must outlive the split. Its block_examples may differ from
  // block_examples of the split; lines are found fastest when the index's
  // blocks are not larger.
  InterleavedSplit(const SourceIndex* index, const Options& options);

  absl::StatusOr<std::optional<DataRange>> Next() override;
  void Done(const DataRange&) override {}

  // Number of examples in the reader's blocks in the whole epoch, covered
  // examples included.
  uint64_t num_examples() const;
  // Number of blocks of which Next returns, or has returned, an item.
  uint64_t num_blocks() const;

 private:
  // The examples of a block that are not covered, ascending.
  std::vector<DataRange> ItemsOfBlock(uint64_t block) const;

  const SourceIndex* const index_;
  const Options options_;
  const uint64_t end_;  // of the stream
  mutable absl::Mutex mutex_;
  uint64_t block_ ABSL_GUARDED_BY(mutex_);
  // The rest of the current block, in reverse order: the next item is the last
  // element.
  std::vector<DataRange> items_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_SOURCE_INDEX_H_
