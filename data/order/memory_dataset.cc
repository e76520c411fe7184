#include "data/order/memory_dataset.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "data/order/example_fetcher.h"

namespace oarlock::data {
namespace {

template <typename T>
uint64_t BytesOf(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

// Frees reserved memory without elements; returns the bytes that remain.
uint64_t Shrink(Batch* batch) {
  batch->labels.shrink_to_fit();
  batch->dense.shrink_to_fit();
  batch->keys.shrink_to_fit();
  batch->offsets.shrink_to_fit();
  batch->weights.shrink_to_fit();
  return sizeof(Batch) + BytesOf(batch->labels) + BytesOf(batch->dense) +
         BytesOf(batch->keys) + BytesOf(batch->offsets) +
         BytesOf(batch->weights);
}

// The share's examples, in the order of its positions.
std::vector<uint64_t> ExamplesOf(const MemoryDataset::Share& share) {
  std::vector<uint64_t> examples;
  examples.reserve(share.share->size());
  OrderCursor cursor(share.order.get());
  for (const PositionRun& run : share.share->runs()) {
    for (uint64_t p = run.begin; p < run.end; ++p) {
      examples.push_back(cursor.At(p));
    }
  }
  return examples;
}

}  // namespace

MemoryDataset::MemoryDataset(Options options, const SourceIndex* index)
    : options_(std::move(options)), index_(index) {}

MemoryDataset::~MemoryDataset() {
  stopping_ = true;
  WaitPreload().IgnoreError();
}

void MemoryDataset::Preload(Share share) {
  if (IsPreload(share) && (thread_.joinable() || preloaded().ok())) return;
  WaitPreload().IgnoreError();
  preload_ = std::move(share);
  thread_ = std::thread([this] {
    absl::StatusOr<std::shared_ptr<const LoadedEpoch>> loaded =
        Load(*preload_, /*keeps_current=*/true);
    SetPreloaded(std::move(loaded));
  });
}

absl::Status MemoryDataset::WaitPreload() {
  if (thread_.joinable()) thread_.join();
  return preloaded().status();
}

absl::StatusOr<std::shared_ptr<const LoadedEpoch>> MemoryDataset::Take(
    Share share) {
  const absl::Status preload = WaitPreload();
  const bool is_wanted = IsPreload(share);
  if (!preload.ok() && preload_.has_value() && !is_wanted) {
    Log().warn("the preload of epoch {}, which is not wanted now, failed: {}",
               preload_->epoch, std::string(preload.message()));
  }
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> loaded =
      is_wanted ? preloaded() : Load(share, /*keeps_current=*/false);
  preload_.reset();
  SetCurrent(loaded.ok() ? *loaded : nullptr);
  SetPreloaded(nullptr);
  return loaded;
}

std::optional<uint64_t> MemoryDataset::DropPreload() {
  stopping_ = true;
  WaitPreload().IgnoreError();
  stopping_ = false;
  std::optional<uint64_t> epoch;
  if (preload_.has_value()) epoch = preload_->epoch;
  preload_.reset();
  SetPreloaded(nullptr);
  return epoch;
}

void MemoryDataset::Release() {
  DropPreload();
  SetCurrent(nullptr);
}

uint64_t MemoryDataset::bytes() const {
  absl::MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  if (current_ != nullptr) {
    bytes += current_->memory->bytes + BytesOf(current_->indices);
  }
  const auto preloaded = PreloadedMemory();
  if (preloaded != nullptr && preloaded != CurrentMemory()) {
    bytes += preloaded->bytes;
  }
  return bytes;
}

absl::StatusOr<std::shared_ptr<const LoadedEpoch>> MemoryDataset::preloaded()
    const {
  absl::MutexLock lock(&mutex_);
  return preloaded_;
}

void MemoryDataset::SetPreloaded(
    absl::StatusOr<std::shared_ptr<const LoadedEpoch>> loaded) {
  absl::MutexLock lock(&mutex_);
  std::swap(preloaded_, loaded);
}

void MemoryDataset::SetCurrent(std::shared_ptr<const LoadedEpoch> loaded) {
  absl::MutexLock lock(&mutex_);
  std::swap(current_, loaded);
}

std::shared_ptr<const ExampleMemory> MemoryDataset::CurrentMemory() const {
  return current_ == nullptr ? nullptr : current_->memory;
}

std::shared_ptr<const ExampleMemory> MemoryDataset::PreloadedMemory() const {
  return preloaded_.ok() && *preloaded_ != nullptr ? (*preloaded_)->memory
                                                   : nullptr;
}

absl::StatusOr<std::shared_ptr<const LoadedEpoch>> MemoryDataset::Load(
    const Share& share, bool keeps_current) {
  const std::vector<uint64_t> in_order = ExamplesOf(share);
  std::vector<uint64_t> sorted = in_order;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  auto loaded = std::make_shared<LoadedEpoch>();
  loaded->order = share.order;
  loaded->share = share.share;
  uint64_t bytes_taken = 0;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& memory : {PreloadedMemory(), CurrentMemory()}) {
      if (memory != nullptr && memory->examples == sorted) {
        loaded->memory = memory;
      }
    }
    if (keeps_current && current_ != nullptr) {
      bytes_taken = current_->memory->bytes;
    }
  }
  if (loaded->memory == nullptr) {
    SetPreloaded(nullptr);
    if (!keeps_current) SetCurrent(nullptr);
    OARLOCK_ASSIGN_OR_RETURN(loaded->memory,
                             Read(std::move(sorted), bytes_taken));
  }
  const std::vector<uint64_t>& examples = loaded->memory->examples;
  loaded->indices.reserve(in_order.size());
  for (const uint64_t example : in_order) {
    loaded->indices.push_back(static_cast<uint32_t>(
        std::lower_bound(examples.begin(), examples.end(), example) -
        examples.begin()));
  }
  return loaded;
}

absl::StatusOr<std::shared_ptr<const ExampleMemory>> MemoryDataset::Read(
    std::vector<uint64_t> examples, uint64_t bytes_taken) {
  auto memory = std::make_shared<ExampleMemory>();
  memory->examples = std::move(examples);
  memory->places.resize(memory->examples.size());
  const size_t num_segments =
      (memory->examples.size() + ExampleMemory::kSegmentExamples - 1) /
      ExampleMemory::kSegmentExamples;
  memory->segments.resize(num_segments);
  std::atomic<uint64_t> bytes_read =
      BytesOf(memory->examples) + BytesOf(memory->places);
  BadLines bad_lines;
  // Runs of segments, so that each thread goes through its files once.
  const auto num_threads =
      std::clamp<size_t>(static_cast<size_t>(options_.num_threads), 1,
                         std::max<size_t>(1, num_segments));
  std::vector<absl::Status> statuses(num_threads);
  const auto read = [&](size_t t) {
    statuses[t] = ReadSegments(
        num_segments * t / num_threads, num_segments * (t + 1) / num_threads,
        bytes_taken, &bad_lines, memory.get(), &bytes_read);
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < num_threads; ++t) threads.emplace_back(read, t);
  read(0);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) OARLOCK_RETURN_IF_ERROR(status);
  memory->bytes = bytes_read;
  return memory;
}

absl::Status MemoryDataset::ReadSegments(size_t begin, size_t end,
                                         uint64_t bytes_taken,
                                         BadLines* bad_lines,
                                         ExampleMemory* memory,
                                         std::atomic<uint64_t>* bytes_read) {
  ExampleFetcher fetcher(options_.data, options_.files, index_, bad_lines);
  std::vector<uint32_t> places;
  for (size_t segment = begin; segment < end; ++segment) {
    if (stopping_) return absl::CancelledError("loading was broken off");
    const size_t first = segment * ExampleMemory::kSegmentExamples;
    const size_t last = std::min<size_t>(
        first + ExampleMemory::kSegmentExamples, memory->examples.size());
    Batch* const batch = &memory->segments[segment];
    OARLOCK_RETURN_IF_ERROR(fetcher.Fetch(
        absl::MakeConstSpan(&memory->examples[first], last - first), batch,
        &places));
    std::copy(places.begin(), places.end(), memory->places.begin() + first);
    const uint64_t bytes = Shrink(batch);
    const uint64_t taken = bytes_read->fetch_add(bytes) + bytes + bytes_taken;
    if (taken > options_.bytes_max) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the examples of --dataset memory take more than --dataset_memory_mb "
          "allows: ",
          options_.bytes_max >> 20, " MiB are full with a part of ",
          memory->examples.size(), " examples",
          bytes_taken > 0 ? absl::StrCat(", ", bytes_taken >> 20,
                                         " MiB of it the epoch before")
                          : "",
          "; raise it, take more workers, or use --dataset queue",
          bytes_taken > 0 ? " or --preload false" : ""));
    }
  }
  return absl::OkStatus();
}

MemoryPositions::MemoryPositions(const DataOptions& options,
                                 std::vector<std::string> files,
                                 const SourceIndex* index,
                                 std::shared_ptr<const LoadedEpoch> loaded,
                                 BadLines* bad_lines)
    : options_(options),
      schema_(SchemaOf(options)),
      files_(std::move(files)),
      index_(index),
      loaded_(std::move(loaded)),
      bad_lines_(bad_lines) {}

absl::StatusOr<uint64_t> MemoryPositions::Prepare(uint64_t begin,
                                                  uint64_t end) {
  begin_ = begin;
  ordinal_ = loaded_->share->OrdinalOf(begin);
  // An item is within one run of the share.
  for (uint64_t i = 0; i < end - begin; ++i) {
    const uint32_t index = loaded_->indices[ordinal_ + i];
    if (loaded_->memory->places[index] != ExampleFetcher::kMalformed) continue;
    const uint64_t example = loaded_->memory->examples[index];
    const size_t file = index_->FileOf(example);
    OARLOCK_RETURN_IF_ERROR(
        bad_lines_->Add(files_[file], example - index_->first_example(file),
                        "malformed; it was skipped when it was loaded",
                        options_.bad_lines_max));
  }
  return end;
}

void MemoryPositions::Append(uint64_t position, Batch* batch) {
  const uint32_t index = loaded_->indices[ordinal_ + position - begin_];
  const uint32_t place = loaded_->memory->places[index];
  if (!ExampleFetcher::IsExample(place)) return;
  AppendExample(
      schema_,
      loaded_->memory->segments[index / ExampleMemory::kSegmentExamples], place,
      batch);
}

}  // namespace oarlock::data
