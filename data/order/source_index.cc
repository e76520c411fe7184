#include "data/order/source_index.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "data/reader/byte_source.h"
#include "data/reader/input_file.h"
#include "data/reader/line_reader.h"

namespace oarlock::data {
namespace {

absl::StatusOr<SourceIndex::File> IndexFile(const DataOptions& options,
                                            const std::string& path,
                                            uint64_t block_examples,
                                            UnseekableRule rule) {
  SourceIndex::File file;
  file.can_seek = CanSeek(options, path);
  if (!file.can_seek && rule == UnseekableRule::kLeave) {
    file.is_counted = false;
    return file;
  }
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source,
                           OpenInputBytes(options, path));
  std::vector<char> buffer(kReadBytes);
  uint64_t newlines = 0;
  bool is_mark_alone = false;
  uint64_t next_block_line = 0;
  bool at_line_start = true;
  while (true) {
    OARLOCK_ASSIGN_OR_RETURN(const size_t n,
                             source->Read(buffer.data(), buffer.size()));
    if (n == 0) break;
    if (file.size_bytes == 0) {
      OARLOCK_RETURN_IF_ERROR(CheckText({buffer.data(), n}, path));
    }
    is_mark_alone = file.size_bytes == 0 &&
                    std::string_view(buffer.data(), n) == kByteOrderMark;
    const char* const begin = buffer.data();
    const char* const end = begin + n;
    for (const char* p = begin; p != end;) {
      if (file.can_seek && at_line_start && newlines == next_block_line) {
        file.block_offsets.push_back(file.size_bytes +
                                     static_cast<uint64_t>(p - begin));
        next_block_line += block_examples;
      }
      const void* newline = std::memchr(p, '\n', static_cast<size_t>(end - p));
      at_line_start = newline != nullptr;
      if (newline == nullptr) break;
      p = static_cast<const char*>(newline) + 1;
      ++newlines;
    }
    file.size_bytes += n;
  }
  if (is_mark_alone) {
    SourceIndex::File empty;
    empty.can_seek = file.can_seek;
    return empty;
  }
  // The last line may lack its newline.
  file.num_examples = newlines + (at_line_start ? 0 : 1);
  return file;
}

uint64_t EndOfSplit(const SourceIndex& index,
                    const InterleavedSplit::Options& options) {
  OARLOCK_CHECK(options.block_examples > 0);
  OARLOCK_CHECK(options.reader_index < options.num_readers);
  const uint64_t total = index.total_examples();
  const uint64_t round = options.block_examples * options.num_readers;
  return options.drop_tail ? total - total % round : total;
}

}  // namespace

SourceIndex::SourceIndex(uint64_t block_examples, std::vector<File> files)
    : block_examples_(block_examples), files_(std::move(files)) {
  OARLOCK_CHECK(block_examples_ > 0);
  first_example_.push_back(0);
  for (const File& file : files_) {
    first_example_.push_back(first_example_.back() + file.num_examples);
  }
}

size_t SourceIndex::FileOf(uint64_t example) const {
  OARLOCK_CHECK(example < total_examples());
  // upper_bound skips empty files before the file that holds `example`.
  return static_cast<size_t>(
      std::upper_bound(first_example_.begin(), first_example_.end(), example) -
      first_example_.begin() - 1);
}

bool SourceIndex::is_counted() const {
  return std::all_of(files_.begin(), files_.end(),
                     [](const File& file) { return file.is_counted; });
}

uint64_t SourceIndex::total_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files_) bytes += file.size_bytes;
  return bytes;
}

std::vector<DataRange> SourceIndex::Items() const {
  std::vector<DataRange> items;
  uint64_t blocks_left = 0;
  for (const File& file : files_) blocks_left += file.block_offsets.size();
  for (size_t source = 0; source < files_.size(); ++source) {
    const File& file = files_[source];
    // A file without seek is one item: a second reader would have to decompress
    // it again.
    if (!file.is_counted || (!file.can_seek && file.num_examples > 0)) {
      items.push_back(
          {.source = static_cast<uint32_t>(source), .end = file.num_examples});
    }
    const uint64_t num_blocks = file.block_offsets.size();
    for (uint64_t block = 0; block < num_blocks;) {
      const uint64_t length =
          std::min(BlocksOfRange(blocks_left), num_blocks - block);
      items.push_back({.source = static_cast<uint32_t>(source),
                       .begin = block * block_examples_,
                       .end = std::min((block + length) * block_examples_,
                                       file.num_examples),
                       .byte_offset = file.block_offsets[block]});
      block += length;
      blocks_left -= length;
    }
  }
  return items;
}

std::vector<DataRange> SourceIndex::ItemsOf(uint64_t begin,
                                            uint64_t end) const {
  OARLOCK_CHECK(begin <= end && end <= total_examples());
  std::vector<DataRange> items;
  if (begin == end) return items;
  size_t source = FileOf(begin);
  for (; begin < end; ++source) {
    const uint64_t first = first_example_[source];
    const uint64_t stop = std::min(end, first_example_[source + 1]);
    if (stop == begin) continue;
    items.push_back(
        ItemOf({static_cast<uint32_t>(source), begin - first, stop - first}));
    begin = stop;
  }
  return items;
}

DataRange SourceIndex::ItemOf(const ExampleRange& range) const {
  const File& file = files_[range.source];
  if (!file.can_seek) {
    return {.source = range.source, .begin = range.begin, .end = range.end};
  }
  return {.source = range.source,
          .begin = range.begin,
          .end = range.end,
          .byte_offset = file.block_offsets[range.begin / block_examples_],
          .skip_lines = range.begin % block_examples_};
}

absl::StatusOr<SourceIndex> BuildSourceIndex(
    const std::vector<std::string>& files, uint64_t block_examples,
    int num_threads, UnseekableRule rule, const DataOptions& options) {
  OARLOCK_CHECK(block_examples > 0 && num_threads > 0);
  std::vector<SourceIndex::File> indexed(files.size());
  std::vector<absl::Status> statuses(files.size());
  std::atomic<size_t> next = 0;
  const auto index_files = [&] {
    for (size_t i; (i = next.fetch_add(1)) < files.size();) {
      absl::StatusOr<SourceIndex::File> file =
          IndexFile(options, files[i], block_examples, rule);
      if (file.ok()) {
        indexed[i] = *std::move(file);
      } else {
        statuses[i] = file.status();
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t useful =
      std::min(static_cast<size_t>(num_threads), files.size());
  for (size_t i = 1; i < useful; ++i) threads.emplace_back(index_files);
  index_files();
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) OARLOCK_RETURN_IF_ERROR(status);
  return SourceIndex(block_examples, std::move(indexed));
}

std::vector<DataRange> WholeFileItems(size_t num_files) {
  std::vector<DataRange> items(num_files);
  for (size_t i = 0; i < num_files; ++i) {
    items[i].source = static_cast<uint32_t>(i);
  }
  return items;
}

SharedList::SharedList(std::vector<DataRange> items)
    : items_(std::move(items)) {}

absl::StatusOr<std::optional<DataRange>> SharedList::Next() {
  absl::MutexLock lock(&mutex_);
  if (next_ == items_.size()) return std::nullopt;
  return items_[next_++];
}

InterleavedSplit::InterleavedSplit(const SourceIndex* index,
                                   const Options& options)
    : index_(index),
      options_(options),
      end_(EndOfSplit(*index, options)),
      block_(options.reader_index) {}

std::vector<DataRange> InterleavedSplit::ItemsOfBlock(uint64_t block) const {
  const uint64_t begin = block * options_.block_examples;
  std::vector<DataRange> items =
      index_->ItemsOf(begin, std::min(begin + options_.block_examples, end_));
  if (options_.covered != nullptr) {
    std::vector<DataRange> rest;
    for (const DataRange& item : items) {
      for (const ExampleRange& missing :
           options_.covered->Missing({item.source, item.begin, item.end})) {
        rest.push_back(index_->ItemOf(missing));
      }
    }
    items = std::move(rest);
  }
  if (!items.empty()) items.back().ends_batch = true;
  return items;
}

absl::StatusOr<std::optional<DataRange>> InterleavedSplit::Next() {
  absl::MutexLock lock(&mutex_);
  while (items_.empty()) {
    if (block_ * options_.block_examples >= end_) return std::nullopt;
    items_ = ItemsOfBlock(block_);
    block_ += options_.num_readers;
    std::reverse(items_.begin(), items_.end());
  }
  const DataRange item = items_.back();
  items_.pop_back();
  return item;
}

uint64_t InterleavedSplit::num_blocks() const {
  if (options_.covered == nullptr || options_.covered->empty()) {
    const uint64_t all =
        (end_ + options_.block_examples - 1) / options_.block_examples;
    return (all + options_.num_readers - 1 - options_.reader_index) /
           options_.num_readers;
  }
  uint64_t blocks = 0;
  for (uint64_t block = options_.reader_index;
       block * options_.block_examples < end_; block += options_.num_readers) {
    blocks += !ItemsOfBlock(block).empty();
  }
  return blocks;
}

uint64_t InterleavedSplit::num_examples() const {
  const uint64_t block = options_.block_examples;
  const uint64_t round = block * options_.num_readers;
  const uint64_t first = options_.reader_index * block;
  const uint64_t rest = end_ % round;
  return end_ / round * block +
         (rest <= first ? 0 : std::min(rest - first, block));
}

}  // namespace oarlock::data
