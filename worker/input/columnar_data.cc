#include "worker/input/columnar_data.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/environment.h"
#include "worker/config/data_options_of.h"

namespace oarlock::worker {
namespace {

// Row groups of a file that are leased together have up to so many rows.
constexpr uint64_t kRangeRows = 65536;
constexpr char kPython[] = "OARLOCK_PYTHON";

data::ReaderOptions ReaderOptionsOf(const v1::JobConfig& config,
                                    const data::DataOptions& data) {
  data::ReaderOptions options;
  const cluster::EnvironmentMap environment = cluster::ReadEnvironment();
  if (const auto python = environment.find(kPython);
      python != environment.end() && !python->second.empty()) {
    options.command[0] = python->second;
  }
  if (!config.python().empty()) options.command[0] = config.python();
  options.memory_bytes = static_cast<uint64_t>(config.reader_memory_mb()) << 20;
  options.read_timeout = absl::Seconds(config.read_timeout_s());
  options.while_silent = data.while_silent;
  return options;
}

// By a process that is started anew where it ends too early.
absl::StatusOr<data::ReaderProcess::Listing> List(
    const data::FeatureList& features, const data::ReaderOptions& options,
    const std::vector<std::string>& patterns) {
  for (int restarts = 0;; ++restarts) {
    auto listing = [&]() -> absl::StatusOr<data::ReaderProcess::Listing> {
      OARLOCK_ASSIGN_OR_RETURN(
          const std::unique_ptr<data::ReaderProcess> process,
          data::ReaderProcess::Start(features, options));
      return process->List(patterns);
    }();
    if (!absl::IsUnavailable(listing.status()) ||
        restarts == data::RowFeed::kMaxRestarts) {
      return listing;
    }
    Log().warn("{}; another one lists the files",
               std::string(listing.status().message()));
  }
}

// Numbers features in the order of their names. Those that share rows have the
// number of the one with which they do.
v1::FeatureList Numbered(v1::FeatureList list) {
  uint32_t number = 0;
  for (v1::Feature& feature : *list.mutable_features()) {
    if (feature.has_sparse() && feature.sparse().shares().empty()) {
      feature.mutable_sparse()->set_number(++number);
    } else if (feature.has_sequence() && feature.sequence().shares().empty()) {
      feature.mutable_sequence()->set_number(++number);
    }
  }
  return list;
}

// The feeds of a phase: compute threads that have one source have one feed.
class Feeds {
 public:
  explicit Feeds(const data::RowSourceOptions* options) : options_(*options) {}

  std::shared_ptr<data::RowFeed> Of(data::RangeSource* source,
                                    data::BadLines* bad_lines) {
    absl::MutexLock lock(&mutex_);
    std::weak_ptr<data::RowFeed>& feed = feeds_[source];
    std::shared_ptr<data::RowFeed> found = feed.lock();
    if (found == nullptr) {
      found = std::make_shared<data::RowFeed>(&options_, source, bad_lines);
      feed = found;
    }
    return found;
  }

 private:
  const data::RowSourceOptions& options_;
  absl::Mutex mutex_;
  std::map<data::RangeSource*, std::weak_ptr<data::RowFeed>> feeds_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<ColumnarData>> ColumnarData::Open(
    const v1::JobConfig& config, const std::vector<std::string>& patterns,
    const data::DataOptions& options) {
  OARLOCK_ASSIGN_OR_RETURN(const data::FeatureList features,
                           FeaturesOf(config));
  auto columnar = absl::WrapUnique(new ColumnarData);
  const data::ReaderOptions reader = ReaderOptionsOf(config, options);
  OARLOCK_ASSIGN_OR_RETURN(data::ReaderProcess::Listing listing,
                           List(features, reader, patterns));
  OARLOCK_ASSIGN_OR_RETURN(
      data::FeatureList numbered,
      data::FeatureList::Create(Numbered(std::move(listing.features))));
  columnar->options_.emplace(
      data::RowSourceOptions{.features = std::move(numbered),
                             .reader = reader,
                             .files = std::move(listing.files),
                             .bad_rows_max = options.bad_lines_max});
  return columnar;
}

std::vector<std::string> ColumnarData::paths() const {
  std::vector<std::string> paths;
  for (const v1::ListedFile& file : options_->files) {
    paths.push_back(file.path());
  }
  return paths;
}

std::vector<uint64_t> ColumnarData::counts() const {
  std::vector<uint64_t> counts;
  for (const v1::ListedFile& file : options_->files) {
    uint64_t rows = 0;
    for (const uint64_t group : file.group_rows()) rows += group;
    counts.push_back(rows);
  }
  return counts;
}

std::vector<data::DataRange> ColumnarData::groups() const {
  std::vector<data::DataRange> ranges;
  for (uint32_t source = 0; source < options_->files.size(); ++source) {
    uint64_t begin = 0;
    uint64_t end = 0;
    const auto add = [&] {
      if (end > begin) {
        ranges.push_back({.source = source, .begin = begin, .end = end});
      }
      begin = end;
    };
    for (const uint64_t rows : options_->files[source].group_rows()) {
      if (end + rows - begin > kRangeRows) add();
      end += rows;
    }
    add();
  }
  return ranges;
}

EpochRanges::NewReader ColumnarData::new_reader() const {
  auto feeds = std::make_shared<Feeds>(&*options_);
  return [feeds](data::RangeSource* source, data::BadLines* bad_lines) {
    return std::make_unique<data::RowReader>(feeds->Of(source, bad_lines));
  };
}

}  // namespace oarlock::worker
