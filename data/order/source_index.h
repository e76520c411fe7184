// Where the examples of line-based files lie, and how an epoch over them is cut
// into ranges.

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

// The lines of a list of files. Every line counts as an example, malformed
// ones too: what they hold is not looked at. Immutable, so thread-safe.
class SourceIndex {
 public:
  struct File {
    uint64_t num_examples = 0;
    // Of the text, once it is unpacked.
    uint64_t size_bytes = 0;
    // Where examples 0, block_examples, 2 * block_examples ... start; empty for
    // a file that cannot be sought in.
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
  // Whether all files are.
  bool is_counted() const;
  // The file that holds `example` of their concatenation. REQUIRES: there is
  // one.
  size_t FileOf(uint64_t example) const;
  // Examples before file number `file`, at most the number of files.
  uint64_t first_example(size_t file) const { return first_example_[file]; }
  uint64_t total_bytes() const;

  // The whole input, in order: items of block_examples examples, the last one
  // of each file shorter; one item of a file that cannot be sought in, to its
  // end where it was not counted. An empty file has none.
  std::vector<DataRange> Items() const;

  // Examples [begin, end) of the concatenation of all files: one item for each
  // file that they touch. end is at most total_examples().
  std::vector<DataRange> ItemsOf(uint64_t begin, uint64_t end) const;
  // Examples of one file, by their numbers in it.
  DataRange ItemOf(const ExampleRange& range) const;

 private:
  const uint64_t block_examples_;
  const std::vector<File> files_;
  // [files + 1]: examples before each file, and at last all.
  std::vector<uint64_t> first_example_;
};

// What becomes of files that cannot be sought in, which only unpacking, or
// running the command, can count.
enum class UnseekableRule { kCount, kLeave };

// Reads all files once, up to `num_threads` (at least 1) at a time, at the
// speed of the page cache. `block_examples` is at least 1. An error for a file
// that cannot be read or is not text (CheckText in line_reader.h).
absl::StatusOr<SourceIndex> BuildSourceIndex(
    const std::vector<std::string>& files, uint64_t block_examples,
    int num_threads, UnseekableRule rule = UnseekableRule::kCount,
    const DataOptions& options = DataOptions());

// For inputs whose lengths are not known (pipe_command): one item for each
// file, to its end.
std::vector<DataRange> WholeFileItems(size_t num_files);

// Hands out a list of items in order, to any number of readers: a local run.
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
// one stream of examples; block g of it is [g * block, (g + 1) * block), the
// last one shorter; reader i of n gets the blocks with g % n == i, in order.
// With the block equal to the batch size, round r of n readers is the same
// examples as round r of one reader with n times the block. A batch ends with
// its block (DataRange::ends_batch), so a malformed line makes one batch
// shorter and moves no other; only a block without any good line does. Readers
// may run out one round before others.
// In an epoch that is resumed examples that were trained before are left out,
// and so is a block of nothing else: the rounds that follow are those that
// followed in the epoch that was broken off, with as many readers. Thread-safe.
// For one epoch: the next one needs a new one.
class InterleavedSplit : public RangeSource {
 public:
  struct Options {
    uint64_t block_examples = 0;  // at least 1
    uint64_t reader_index = 0;    // below num_readers
    uint64_t num_readers = 1;
    // Leaves out the examples behind the last full round, of which every
    // reader would not get a full block.
    bool drop_tail = false;
    // Examples to leave out; null: none. Must outlive the split.
    const ExampleIntervals* covered = nullptr;
  };
  // `index` must outlive the split. Its block_examples need not be the
  // split's; offsets are found fastest when it is not larger.
  InterleavedSplit(const SourceIndex* index, const Options& options);

  absl::StatusOr<std::optional<DataRange>> Next() override;
  void Done(const DataRange&) override {}

  // Examples of the reader's blocks in the whole epoch.
  uint64_t num_examples() const;
  // Blocks that Next will give, or has given, something of.
  uint64_t num_blocks() const;

 private:
  // What of a block is not covered, ascending.
  std::vector<DataRange> ItemsOfBlock(uint64_t block) const;

  const SourceIndex* const index_;
  const Options options_;
  const uint64_t end_;  // of the stream
  mutable absl::Mutex mutex_;
  uint64_t block_ ABSL_GUARDED_BY(mutex_);
  // The rest of the block in hand, the next item last.
  std::vector<DataRange> items_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_SOURCE_INDEX_H_
