#include "worker/input/training_data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/mix.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "data/batch.h"
#include "data/listed_ranges.h"
#include "data/order/example_intervals.h"
#include "data/order/example_reader.h"
#include "data/order/ordered_reader.h"
#include "data/reader/file_list.h"
#include "data/reader/input_file.h"
#include "worker/config/data_options_of.h"
#include "worker/config/training_mode.h"
#include "worker/input/epoch_ranges.h"

namespace oarlock::worker {
namespace {

// A command that writes nothing for so long is not waited for when training is
// stopped.
constexpr absl::Duration kQuietWhenStopped = absl::Seconds(1);

// A lease is about this many examples: small enough that compute threads end
// together, large enough that asking costs nothing.
constexpr int64_t kLeaseExamples = 2048;
// One of a shuffled epoch is more, since it is read from many places.
constexpr uint64_t kOrderedLeaseExamples = 4096;
// Files are indexed by this many threads: it is one scan of memory.
constexpr int kIndexThreads = 2;

constexpr WorkerIndex kFirstWorker(0);

// See DefinePhaseRequest.
constexpr absl::string_view kOrderSeparator = ", ";

data::ShuffleRule ShuffleOf(const v1::JobConfig& config) {
  return config.shuffle() == "global"  ? data::ShuffleRule::kGlobal
         : config.shuffle() == "local" ? data::ShuffleRule::kLocal
                                       : data::ShuffleRule::kNone;
}

absl::string_view NameOf(data::ShuffleRule rule) {
  return rule == data::ShuffleRule::kGlobal  ? "global"
         : rule == data::ShuffleRule::kLocal ? "local"
                                             : "none";
}

data::SplitRule SplitOf(const v1::JobConfig& config) {
  return config.split() == "contiguous" ? data::SplitRule::kContiguous
         : config.split() == "by_file"  ? data::SplitRule::kByFile
                                        : data::SplitRule::kInterleaved;
}

std::vector<uint64_t> CountsOf(const data::SourceIndex& index) {
  std::vector<uint64_t> counts;
  for (const data::SourceIndex::File& file : index.files()) {
    counts.push_back(file.num_examples);
  }
  return counts;
}

absl::Status Contradiction(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

}  // namespace

bool TrainingData::HasStaticSplit(const v1::JobConfig& config) {
  if (config.split() != "auto") return config.split() != "leased";
  if (config.dataset() == "memory" || config.sampling() == "with_replacement") {
    return true;
  }
  // A command's output cannot be addressed, so it cannot be split.
  return ModeOf(config) == TrainingMode::kSync && config.pipe_command().empty();
}

absl::Status TrainingData::CheckConfig(const v1::JobConfig& config) {
  const bool is_static = HasStaticSplit(config);
  const bool in_memory = config.dataset() == "memory";
  const bool has_own_order = config.sampling() == "with_replacement";
  if (!is_static && in_memory) {
    return Contradiction(
        "--dataset memory gives each worker a share of its own, --split leased "
        "gives ranges to whoever asks; leave --split out, or use --dataset "
        "queue");
  }
  if (in_memory && !config.watch_dir().empty()) {
    return Contradiction(
        "--watch_dir trains each file once, when it has come; --dataset memory "
        "is for epochs that are known beforehand; use --dataset queue");
  }
  if (!is_static && has_own_order) {
    return Contradiction(
        "--sampling with_replacement gives each worker an order of its own, "
        "--split leased one order to all; leave --split out");
  }
  if (has_own_order && config.shuffle() == "none") {
    return Contradiction(
        "--sampling with_replacement needs orders that differ; add --shuffle "
        "global");
  }
  if (!is_static && config.drop_tail()) {
    return Contradiction(
        "--drop_tail needs shares that are known beforehand; add --split "
        "interleaved, contiguous or by_file");
  }
  if (config.split() == "by_file" && config.shuffle() == "global") {
    return Contradiction(
        "--split by_file keeps files with their reader, --shuffle global moves "
        "examples between them; use --shuffle local, or another split");
  }
  if (DataFormatOf(config) == data::DataOptions::Format::kColumns) {
    return ColumnarPhases::CheckConfig(config);
  }
  if (!config.pipe_command().empty() && !in_memory) {
    if (is_static) {
      return Contradiction(absl::StrCat(
          "--split ", config.split(),
          " needs files whose lines can be counted; it does not go with "
          "--pipe_command, use --split leased or --dataset memory"));
    }
    if (config.shuffle() != "none" || config.repeats_per_epoch() > 1) {
      return Contradiction(
          "the output of --pipe_command cannot be read out of order; use "
          "--dataset memory to shuffle or repeat it");
    }
  }
  return absl::OkStatus();
}

TrainingData::TrainingData(const v1::JobConfig& config, Division division,
                           client::JobClient* job, const Clock& clock,
                           SkipPolicy skip_policy)
    : config_(config),
      division_(division),
      job_(job),
      clock_(clock),
      skip_policy_(skip_policy),
      shuffle_(ShuffleOf(config)) {}

absl::StatusOr<std::unique_ptr<TrainingData>> TrainingData::Open(
    const v1::JobConfig& config, const std::vector<std::string>& patterns,
    Division division, client::JobClient* job, const Clock& clock,
    SkipPolicy skip_policy) {
  auto data = absl::WrapUnique(
      new TrainingData(config, division, job, clock, skip_policy));
  if (patterns.empty()) {
    data->index_.emplace(/*block_examples=*/1,
                         std::vector<data::SourceIndex::File>());
    return data;
  }
  OARLOCK_RETURN_IF_ERROR(CheckConfig(config));
  if (DataFormatOf(config) == data::DataOptions::Format::kColumns) {
    OARLOCK_RETURN_IF_ERROR(data->ListColumnar(patterns));
    return data;
  }
  OARLOCK_RETURN_IF_ERROR(data->FindFiles(patterns));
  // Only worker 0 hands out ranges, unless every worker computes its own share,
  // or what stands where.
  if (data->IsStatic() || data->IsOrdered() ||
      job->worker_index() == kFirstWorker) {
    OARLOCK_RETURN_IF_ERROR(data->ReadIndex());
  }
  if (division == Division::kConfigured && data->InMemory()) {
    data::MemoryDataset::Options options;
    options.data = data->data_options();
    options.files = data->files_;
    options.bytes_max = static_cast<uint64_t>(config.dataset_memory_mb()) << 20;
    options.num_threads = config.thread_num();
    data->memory_ = std::make_unique<data::MemoryDataset>(std::move(options),
                                                          &*data->index_);
    const uint32_t epoch =
        std::max(job->trained_epochs(), job->own_trained_epochs());
    if (config.preload() && epoch < static_cast<uint32_t>(config.epochs())) {
      data->memory_->Preload(data->MemoryShareOf(epoch));
    }
  }
  return data;
}

data::DataOptions TrainingData::data_options() const {
  data::DataOptions options = DataOptionsOf(config_);
  options.clocks.monotonic = &clock_;
  // A command that hangs would keep the job from ending.
  options.while_silent = [job = job_](absl::Duration silent) -> absl::Status {
    OARLOCK_RETURN_IF_ERROR(job->Alive());
    if (silent < kQuietWhenStopped || !job->training_stopped()) {
      return absl::OkStatus();
    }
    return absl::CancelledError(
        "training was stopped, and the command wrote nothing: it was killed");
  };
  options.leave_out_unreadable = skip_policy_ != SkipPolicy::kNothing;
  if (skip_policy_ == SkipPolicy::kUnreadableAndMalformed) {
    options.bad_lines_max = std::numeric_limits<int64_t>::max();
  }
  return options;
}

absl::Status TrainingData::CheckFirstLines() const {
  // Their columns were checked when they were listed.
  if (columnar_ != nullptr) return absl::OkStatus();
  constexpr size_t kLines = 100;
  for (uint32_t i = 0; i < files_.size(); ++i) {
    std::error_code none;
    // What goes through a pipe is gone.
    if (!std::filesystem::is_regular_file(files_[i], none)) continue;
    data::ListedRanges whole(std::vector<data::DataRange>{{.source = i}});
    data::BadLines bad_lines;
    data::BatchReader reader(data_options(), files_, &whole, &bad_lines);
    data::Batch batch;
    OARLOCK_RETURN_IF_ERROR(reader.Next(kLines, &batch).status());
  }
  return absl::OkStatus();
}

uint64_t TrainingData::EstimateExamples() const {
  if (index_.has_value() && index_->is_counted()) {
    return index_->total_examples();
  }
  constexpr size_t kSampleBytes = 1 << 16;
  const data::DataOptions options = data_options();
  std::string sample;
  uint64_t bytes = 0;
  for (const std::string& file : files_) {
    std::error_code error;
    if (!data::CanSeek(options, file)) return 0;
    bytes += std::filesystem::file_size(file, error);
    if (error) return 0;
    if (!sample.empty()) continue;
    sample.resize(kSampleBytes);
    std::ifstream in(file, std::ios::binary);
    in.read(sample.data(), static_cast<std::streamsize>(sample.size()));
    sample.resize(in.gcount());
  }
  const auto lines = std::count(sample.begin(), sample.end(), '\n');
  return lines == 0 ? 0 : bytes * lines / sample.size();
}

absl::Status TrainingData::FindFiles(const std::vector<std::string>& patterns) {
  if (skip_policy_ != SkipPolicy::kNothing) {
    files_ = patterns;
    for (const std::string& file : files_) data::AwaitFolderOf(file, clock_);
    return absl::OkStatus();
  }
  OARLOCK_ASSIGN_OR_RETURN(files_, data::ExpandFileList(patterns));
  return absl::OkStatus();
}

absl::Status TrainingData::ListColumnar(
    const std::vector<std::string>& patterns) {
  const bool trains = division_ == Division::kConfigured;
  data::DataOptions options = data_options();
  // A process that opens files is silent for a while, and not for ever.
  options.while_silent = [job = job_](absl::Duration) { return job->Alive(); };
  OARLOCK_ASSIGN_OR_RETURN(
      columnar_,
      ColumnarData::Open(config_, patterns, trains ? "train" : "test", options,
                         job_, clock_));
  columnar_phases_ = std::make_unique<ColumnarPhases>(
      config_, trains, IsStatic(), columnar_.get(), job_, clock_);
  files_ = columnar_->paths();
  std::vector<data::SourceIndex::File> counted;
  for (const uint64_t rows : columnar_->counts()) {
    counted.emplace_back().num_examples = rows;
  }
  index_.emplace(/*block_examples=*/1, std::move(counted));
  return absl::OkStatus();
}

absl::Status TrainingData::ReadIndex() {
  const data::DataOptions options = data_options();
  if (IsOrdered() && !InMemory() && shuffle_ != data::ShuffleRule::kNone) {
    for (const std::string& file : files_) {
      if (data::CanSeek(options, file)) continue;
      return Contradiction(
          absl::StrCat("'", file,
                       "' is compressed and cannot be read out of order; use "
                       "--dataset memory to shuffle it, or unpack it"));
    }
  }
  const int64_t batch = config_.batch_size();
  const int64_t block =
      IsOrdered() ? static_cast<int64_t>(data::ExampleOrder::kUnitExamples)
                  : std::max<int64_t>(1, kLeaseExamples / batch) * batch;
  absl::StatusOr<data::SourceIndex> index = data::BuildSourceIndex(
      files_, block, kIndexThreads,
      IsStatic() || IsOrdered() ? data::UnseekableRule::kCount
                                : data::UnseekableRule::kLeave,
      options);
  // With an order of its own every worker has to see the same examples.
  if (!index.ok() && skip_policy_ != SkipPolicy::kNothing && !IsOrdered()) {
    // One by one: the others are trained.
    std::vector<data::SourceIndex::File> found;
    for (const std::string& file : files_) {
      const absl::StatusOr<data::SourceIndex> one =
          data::BuildSourceIndex({file}, block, /*num_threads=*/1,
                                 data::UnseekableRule::kLeave, options);
      if (one.ok()) {
        found.push_back(one->files()[0]);
        continue;
      }
      Log().warn("what is left of {} is left out: {}", file,
                 std::string(one.status().message()));
      found.emplace_back();
    }
    index_.emplace(static_cast<uint64_t>(block), std::move(found));
    return absl::OkStatus();
  }
  OARLOCK_RETURN_IF_ERROR(index.status());
  index_.emplace(*std::move(index));
  return absl::OkStatus();
}

bool TrainingData::IsStatic() const {
  return division_ == Division::kConfigured && HasStaticSplit(config_);
}

bool TrainingData::IsOrdered() const {
  return division_ == Division::kConfigured &&
         (InMemory() || HasOwnOrder() || shuffle_ != data::ShuffleRule::kNone ||
          config_.repeats_per_epoch() > 1 ||
          (IsStatic() && (SplitOf(config_) != data::SplitRule::kInterleaved ||
                          config_.drop_tail())));
}

data::OrderOptions TrainingData::OrderOf(uint32_t epoch) const {
  data::OrderOptions options;
  options.shuffle = shuffle_;
  options.window_examples =
      static_cast<uint64_t>(config_.shuffle_window_examples());
  options.num_repeats = static_cast<uint32_t>(config_.repeats_per_epoch());
  options.seed = static_cast<uint64_t>(config_.seed());
  if (HasOwnOrder()) {
    options.seed = DeriveSeed(options.seed, job_->worker_index().value());
  }
  options.epoch = epoch;
  return options;
}

std::string TrainingData::OrderText() const {
  // An evaluation trains nothing, so it may be of other files than before.
  if (division_ == Division::kLeased) return "";
  std::vector<std::string> parts;
  const auto say = [&parts](absl::string_view flag, const auto& value) {
    parts.push_back(absl::StrCat("--", flag, " ", value));
  };
  if (IsOrdered()) {
    say("shuffle", NameOf(shuffle_));
    if (shuffle_ != data::ShuffleRule::kNone) {
      say("shuffle_window_examples", config_.shuffle_window_examples());
      say("seed", config_.seed());
    }
    say("repeats_per_epoch", config_.repeats_per_epoch());
    say("sampling", config_.sampling());
  }
  // Orders of each worker's, or of each compute thread's, own share.
  if (IsStatic() && (HasOwnOrder() || shuffle_ == data::ShuffleRule::kLocal)) {
    say("split", config_.split());
    say("drop_tail", config_.drop_tail() ? "true" : "false");
    say("worker_num", job_->num_workers());
    say("thread_num", config_.thread_num());
    say("batch_size", config_.batch_size());
  }
  // A watched file may have changed while the job was away; what was appended
  // to it is trained.
  if (!config_.watch_dir().empty()) {
    return absl::StrJoin(parts, kOrderSeparator);
  }
  std::string files = absl::StrCat(files_.size(), " files");
  // Of packed files only some splits know the lengths.
  const bool can_seek = std::all_of(
      index_->files().begin(), index_->files().end(),
      [](const data::SourceIndex::File& file) { return file.can_seek; });
  if (can_seek && index_->is_counted()) {
    const Key lengths =
        FeatureHash(absl::StrJoin(CountsOf(*index_), ","), 0, 0);
    absl::StrAppend(&files, " of ", index_->total_examples(),
                    " examples (lengths ",
                    absl::Hex(static_cast<uint64_t>(lengths)), ")");
  }
  parts.push_back(std::move(files));
  return absl::StrJoin(parts, kOrderSeparator);
}

TrainingData::StaticShare TrainingData::ShareOf(uint32_t epoch) const {
  const auto num_compute_threads = static_cast<uint64_t>(config_.thread_num());
  data::OrderOptions order = OrderOf(epoch);
  data::SplitOptions split;
  split.rule = SplitOf(config_);
  split.num_readers = HasOwnOrder() ? num_compute_threads
                                    : num_compute_threads * job_->num_workers();
  split.block_examples = static_cast<uint64_t>(config_.batch_size());
  split.drop_tail = config_.drop_tail();
  StaticShare share;
  share.runs =
      data::SplitPositions(CountsOf(*index_), order.num_repeats, split);
  const uint64_t first_thread =
      HasOwnOrder() ? 0 : job_->worker_index().value() * num_compute_threads;
  std::vector<data::PositionRun> own;
  for (uint64_t thread = first_thread;
       thread < first_thread + num_compute_threads; ++thread) {
    own.insert(own.end(), share.runs[thread].begin(), share.runs[thread].end());
  }
  share.positions = std::make_shared<const data::PositionRuns>(std::move(own));
  // Examples stay with their worker.
  if (shuffle_ == data::ShuffleRule::kLocal) {
    order.shuffle = data::ShuffleRule::kGlobal;
    order.share = share.positions;
  }
  share.order = std::make_shared<const data::ExampleOrder>(
      index_->total_examples(), order);
  return share;
}

data::MemoryDataset::Share TrainingData::MemoryShareOf(
    uint32_t epoch, const StaticShare& share) const {
  return {.epoch = epoch,
          .shuffle = shuffle_,
          .order = share.order,
          .share = share.positions};
}

absl::StatusOr<std::unique_ptr<EpochRanges>> TrainingData::StartPhase(
    const PhaseId& phase, LeasedRanges::RunCompletion run_completion) {
  if (columnar_phases_ != nullptr) {
    return columnar_phases_->Start(phase, std::move(run_completion));
  }
  if (!IsStatic()) return StartLeased(phase, std::move(run_completion));
  return IsOrdered() ? StartStatic(phase) : StartInterleaved(phase);
}

absl::StatusOr<std::unique_ptr<EpochRanges>> TrainingData::StartLeased(
    const PhaseId& phase, LeasedRanges::RunCompletion run_completion) const {
  const std::string phase_name = phase.Name();
  std::shared_ptr<const data::ExampleOrder> order;
  if (IsOrdered()) {
    order = std::make_shared<const data::ExampleOrder>(index_->total_examples(),
                                                       OrderOf(phase.epoch));
  }
  if (job_->worker_index() == kFirstWorker) {
    const std::vector<data::DataRange> items =
        order == nullptr ? this->items()
                         : PositionItems(order->size(), kOrderedLeaseExamples);
    // Not known, hence 0, where a file is not counted.
    const uint64_t num_examples = order != nullptr ? order->size()
                                  : index_->is_counted()
                                      ? index_->total_examples()
                                      : 0;
    const absl::Status defined =
        job_->DefinePhase(phase_name, items, num_examples, OrderText())
            .status();
    // By a worker 0 that has died since, when the file was another: what it
    // said stands, and what is not there of it is left out.
    if (!absl::IsAlreadyExists(defined) ||
        skip_policy_ == SkipPolicy::kNothing || order != nullptr) {
      OARLOCK_RETURN_IF_ERROR(defined);
    }
  }
  OARLOCK_RETURN_IF_ERROR(job_->Barrier(absl::StrCat(phase_name, "/defined")));
  EpochRanges::NewReader reader;
  if (order != nullptr) {
    reader = [this, order](size_t, data::RangeSource* source,
                           data::BadLines* bad_lines) {
      return std::make_unique<data::OrderedReader>(
          std::make_unique<data::FilePositions>(data_options(), files_,
                                                &*index_, order, bad_lines),
          source);
    };
  }
  return NewLeasedRanges(job_, phase_name,
                         static_cast<size_t>(config_.thread_num()),
                         std::move(run_completion), std::move(reader), clock_);
}

absl::StatusOr<std::unique_ptr<EpochRanges>> TrainingData::StartInterleaved(
    const PhaseId& phase) const {
  // Nobody leases these ranges: they are for the progress line, and for what of
  // them was trained before the job was resumed.
  OARLOCK_ASSIGN_OR_RETURN(
      data::ExampleIntervals covered,
      job_->DefinePhase(phase.Name(), {}, index_->total_examples(),
                        OrderText()));
  return NewInterleavedRanges(&*index_, std::move(covered),
                              static_cast<uint64_t>(config_.batch_size()),
                              job_->worker_index(), job_->num_workers(),
                              static_cast<uint64_t>(config_.thread_num()));
}

absl::StatusOr<std::unique_ptr<EpochRanges>> TrainingData::StartStatic(
    const PhaseId& phase) {
  StaticShare share = ShareOf(phase.epoch);
  uint64_t num_examples = 0;
  for (const auto& runs : share.runs) {
    for (const data::PositionRun& run : runs)
      num_examples += run.end - run.begin;
  }
  if (HasOwnOrder()) num_examples *= job_->num_workers();
  OARLOCK_ASSIGN_OR_RETURN(
      data::ExampleIntervals covered,
      job_->DefinePhase(phase.Name(), {}, num_examples, OrderText()));
  EpochRanges::NewReader reader;
  const data::DataOptions options = data_options();
  if (InMemory()) {
    OARLOCK_ASSIGN_OR_RETURN(std::shared_ptr<const data::LoadedEpoch> loaded,
                             memory_->Take(MemoryShareOf(phase.epoch, share)));
    Log().info("{} examples of epoch {} are in memory, {:.1f} MiB",
               loaded->indices.size(), phase.epoch + 1,
               static_cast<double>(memory_bytes()) / (1 << 20));
    if (config_.preload() &&
        phase.epoch + 1 < static_cast<uint32_t>(config_.epochs())) {
      memory_->Preload(MemoryShareOf(phase.epoch + 1));
    }
    reader = [this, options, loaded](size_t, data::RangeSource* source,
                                     data::BadLines* bad_lines) {
      return std::make_unique<data::OrderedReader>(
          std::make_unique<data::MemoryPositions>(options, files_, &*index_,
                                                  loaded, bad_lines),
          source);
    };
  } else {
    reader = [this, options, order = share.order](
                 size_t, data::RangeSource* source, data::BadLines* bad_lines) {
      return std::make_unique<data::OrderedReader>(
          std::make_unique<data::FilePositions>(options, files_, &*index_,
                                                order, bad_lines),
          source);
    };
  }
  return NewStaticRanges(
      std::move(share.runs), HasOwnOrder(), std::move(covered),
      static_cast<uint64_t>(config_.batch_size()), job_->worker_index(),
      job_->num_workers(), static_cast<uint64_t>(config_.thread_num()),
      std::move(reader));
}

absl::Status TrainingData::CheckInMemory() const {
  if (memory_ != nullptr) return absl::OkStatus();
  if (columnar_ != nullptr) {
    return absl::FailedPreconditionError(
        "columnar files are loaded when an epoch begins, by --dataset memory, "
        "and this call cannot say when; leave it out");
  }
  return absl::FailedPreconditionError(
      "the training files are read from queues; this call needs --dataset "
      "memory");
}

absl::Status TrainingData::LoadIntoMemory(uint32_t epoch) {
  OARLOCK_RETURN_IF_ERROR(PreloadIntoMemory(epoch));
  return WaitPreload();
}

absl::Status TrainingData::PreloadIntoMemory(uint32_t epoch) {
  OARLOCK_RETURN_IF_ERROR(CheckInMemory());
  memory_->Preload(MemoryShareOf(epoch));
  return absl::OkStatus();
}

absl::Status TrainingData::WaitPreload() {
  OARLOCK_RETURN_IF_ERROR(CheckInMemory());
  return memory_->WaitPreload();
}

absl::Status TrainingData::SetShuffle(data::ShuffleRule rule) {
  OARLOCK_RETURN_IF_ERROR(CheckInMemory());
  v1::JobConfig said = config_;
  said.set_shuffle(std::string(NameOf(rule)));
  OARLOCK_RETURN_IF_ERROR(CheckConfig(said));
  if (rule == shuffle_) return absl::OkStatus();
  const bool keeps_examples = job_->num_workers() == 1 || HasOwnOrder() ||
                              (rule != data::ShuffleRule::kGlobal &&
                               shuffle_ != data::ShuffleRule::kGlobal);
  shuffle_ = rule;
  if (keeps_examples) return absl::OkStatus();
  const std::optional<uint64_t> epoch = memory_->DropPreload();
  if (epoch.has_value()) {
    memory_->Preload(MemoryShareOf(static_cast<uint32_t>(*epoch)));
  }
  return absl::OkStatus();
}

absl::Status TrainingData::ReleaseMemory() {
  OARLOCK_RETURN_IF_ERROR(CheckInMemory());
  memory_->Release();
  return absl::OkStatus();
}

}  // namespace oarlock::worker
