#include "data/order/static_split.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace oarlock::data {
namespace {

uint64_t SizeOf(const std::vector<PositionRun>& runs) {
  uint64_t size = 0;
  for (const PositionRun& run : runs) size += run.end - run.begin;
  return size;
}

// Keeps the first `size` positions.
void Truncate(uint64_t size, std::vector<PositionRun>* runs) {
  std::vector<PositionRun> kept;
  for (PositionRun run : *runs) {
    run.end = std::min(run.end, run.begin + size);
    size -= run.end - run.begin;
    if (run.begin < run.end) kept.push_back(run);
  }
  *runs = std::move(kept);
}

}  // namespace

std::vector<std::vector<PositionRun>> SplitPositions(
    const std::vector<uint64_t>& examples_per_file, uint32_t num_copies,
    const SplitOptions& options) {
  OARLOCK_CHECK(options.num_readers > 0 && options.block_examples > 0);
  const uint64_t n = options.num_readers;
  const uint64_t size =
      num_copies * std::accumulate(examples_per_file.begin(),
                                   examples_per_file.end(), uint64_t{0});
  std::vector<std::vector<PositionRun>> readers(n);
  switch (options.rule) {
    case SplitRule::kInterleaved:
      for (uint64_t begin = 0, reader = 0; begin < size;
           begin += options.block_examples, reader = (reader + 1) % n) {
        readers[reader].push_back(
            {begin, std::min(begin + options.block_examples, size)});
      }
      break;
    case SplitRule::kContiguous:
      for (uint64_t reader = 0, begin = 0; reader < n; ++reader) {
        const uint64_t length = size / n + (reader < size % n ? 1 : 0);
        if (length > 0) readers[reader].push_back({begin, begin + length});
        begin += length;
      }
      break;
    case SplitRule::kByFile: {
      uint64_t begin = 0;
      for (uint32_t copy = 0; copy < num_copies; ++copy) {
        for (size_t file = 0; file < examples_per_file.size(); ++file) {
          const uint64_t end = begin + examples_per_file[file];
          if (begin < end) readers[file % n].push_back({begin, end});
          begin = end;
        }
      }
    }
  }
  if (options.drop_tail) {
    uint64_t least = ~uint64_t{0};
    for (const auto& runs : readers) least = std::min(least, SizeOf(runs));
    least -= least % options.block_examples;
    for (auto& runs : readers) Truncate(least, &runs);
  }
  return readers;
}

std::vector<ExampleRange> RangesOf(const std::vector<PositionRun>& runs,
                                   uint32_t source) {
  std::vector<ExampleRange> ranges;
  for (const PositionRun& run : runs) {
    ranges.push_back({source, run.begin, run.end});
  }
  return ranges;
}

RunSplit::RunSplit(const std::vector<ExampleRange>& runs,
                   uint64_t block_examples, const ExampleIntervals* covered) {
  OARLOCK_CHECK(block_examples > 0);
  uint64_t left = block_examples;  // of the current block
  bool has_item = false;
  const auto end_block = [&] {
    if (has_item) {
      items_.back().ends_batch = true;
      ++num_blocks_;
    }
    has_item = false;
    left = block_examples;
  };
  for (const ExampleRange& run : runs) {
    for (uint64_t begin = run.begin; begin < run.end;) {
      const uint64_t end = std::min(run.end, begin + left);
      const ExampleRange range = {run.source, begin, end};
      for (const ExampleRange& rest : covered == nullptr
                                          ? std::vector<ExampleRange>{range}
                                          : covered->Missing(range)) {
        items_.push_back(
            {.source = rest.source, .begin = rest.begin, .end = rest.end});
        has_item = true;
      }
      left -= end - begin;
      begin = end;
      if (left == 0) end_block();
    }
  }
  end_block();
}

absl::StatusOr<std::optional<DataRange>> RunSplit::Next() {
  absl::MutexLock lock(&mutex_);
  if (next_ == items_.size()) return std::nullopt;
  return items_[next_++];
}

}  // namespace oarlock::data
