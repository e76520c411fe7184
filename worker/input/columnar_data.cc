#include "worker/input/columnar_data.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "cluster/environment.h"
#include "worker/config/data_options_of.h"

namespace oarlock::worker {
namespace {

// Row groups of a file that are one unit have up to so many rows.
constexpr uint64_t kMaxJoinedRows = 65536;
// Units that there should be, at least.
constexpr uint64_t kUnits = 64;
constexpr char kPython[] = "OARLOCK_PYTHON";
constexpr char kTrain[] = "train";
constexpr WorkerIndex kFirstWorker(0);
constexpr absl::Duration kPoll = absl::Milliseconds(200);

data::ReaderOptions ReaderOptionsOf(const v1::JobConfig& config,
                                    const data::DataOptions& data) {
  data::ReaderOptions options;
  const cluster::EnvironmentMap environment = cluster::ReadEnvironment();
  if (const auto python = environment.find(kPython);
      python != environment.end() && !python->second.empty()) {
    options.command[0] = python->second;
  }
  if (!config.python().empty()) options.command[0] = config.python();
  options.format = config.data_format() == "arrow" ? v1::BeginReading::ARROW
                   : config.data_format() == "csv" ? v1::BeginReading::CSV
                                                   : v1::BeginReading::PARQUET;
  options.prepare = config.prepare();
  options.memory_bytes = static_cast<uint64_t>(config.reader_memory_mb()) << 20;
  options.read_timeout = absl::Seconds(config.read_timeout_s());
  options.while_silent = data.while_silent;
  return options;
}

v1::FeatureList WithoutNumbers(v1::FeatureList list) {
  for (v1::Feature& feature : *list.mutable_features()) {
    if (feature.has_sparse()) feature.mutable_sparse()->clear_number();
    if (feature.has_sequence()) feature.mutable_sequence()->clear_number();
  }
  return list;
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
        restarts == data::FileRows::kMaxRestarts) {
      return listing;
    }
    Log().warn("{}; another one lists the files",
               std::string(listing.status().message()));
  }
}

// What worker 0 finds, and tells.
absl::StatusOr<client::JobClient::Input> ListAndTell(
    const data::FeatureList& features, const data::ReaderOptions& options,
    const std::vector<std::string>& patterns, const std::string& name,
    client::JobClient* job) {
  absl::StatusOr<client::JobClient::Input> known = job->GetInput(name);
  if (!absl::IsNotFound(known.status())) return known;
  data::FeatureList checked = features;
  // Files of the test have the types that those of the training have.
  if (name != kTrain) {
    absl::StatusOr<client::JobClient::Input> train = job->GetInput(kTrain);
    if (train.ok()) {
      OARLOCK_ASSIGN_OR_RETURN(
          checked, data::FeatureList::Create(WithoutNumbers(train->features)));
    } else if (!absl::IsNotFound(train.status())) {
      return train.status();
    }
  }
  OARLOCK_ASSIGN_OR_RETURN(data::ReaderProcess::Listing listing,
                           List(checked, options, patterns));
  OARLOCK_ASSIGN_OR_RETURN(const data::FeatureList sorted,
                           data::FeatureList::Create(listing.features));
  client::JobClient::Input input;
  OARLOCK_ASSIGN_OR_RETURN(input.features,
                           job->DefineFeatures(sorted.message()));
  input.files = std::move(listing.files);
  OARLOCK_RETURN_IF_ERROR(job->DefineInput(name, input.files));
  return input;
}

// What worker 0, or the one that follows it, has told.
absl::StatusOr<client::JobClient::Input> AwaitInput(const std::string& name,
                                                    client::JobClient* job,
                                                    const Clock& clock) {
  for (;;) {
    absl::StatusOr<client::JobClient::Input> input = job->GetInput(name);
    if (!absl::IsNotFound(input.status())) return input;
    OARLOCK_RETURN_IF_ERROR(job->Alive());
    clock.Sleep(kPoll);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ColumnarData>> ColumnarData::Open(
    const v1::JobConfig& config, const std::vector<std::string>& patterns,
    const std::string& name, const data::DataOptions& options,
    client::JobClient* job, const Clock& clock) {
  OARLOCK_ASSIGN_OR_RETURN(const data::FeatureList features,
                           FeaturesOf(config));
  const data::ReaderOptions reader = ReaderOptionsOf(config, options);
  client::JobClient::Input input;
  if (job->worker_index() == kFirstWorker) {
    OARLOCK_ASSIGN_OR_RETURN(
        input, ListAndTell(features, reader, patterns, name, job));
  }
  OARLOCK_RETURN_IF_ERROR(job->Barrier(absl::StrCat("input/", name)));
  if (job->worker_index() != kFirstWorker) {
    OARLOCK_ASSIGN_OR_RETURN(input, AwaitInput(name, job, clock));
  }
  OARLOCK_ASSIGN_OR_RETURN(data::FeatureList numbered,
                           data::FeatureList::Create(input.features));
  auto columnar = absl::WrapUnique(new ColumnarData);
  std::vector<data::DataRange> units = UnitsOf(input.files);
  columnar->source_.emplace(
      data::RowSourceOptions{.features = std::move(numbered),
                             .reader = reader,
                             .files = std::move(input.files),
                             .units = std::move(units),
                             .bad_rows_max = options.bad_lines_max});
  return columnar;
}

std::vector<std::string> ColumnarData::paths() const {
  std::vector<std::string> paths;
  for (const v1::ListedFile& file : source_->files) {
    paths.push_back(file.path());
  }
  return paths;
}

std::vector<uint64_t> ColumnarData::counts() const {
  std::vector<uint64_t> counts;
  for (const v1::ListedFile& file : source_->files) {
    uint64_t rows = 0;
    for (const uint64_t group : file.group_rows()) rows += group;
    counts.push_back(rows);
  }
  return counts;
}

std::vector<data::DataRange> UnitsOf(const std::vector<v1::ListedFile>& files) {
  uint64_t total = 0;
  for (const v1::ListedFile& file : files) {
    for (const uint64_t rows : file.group_rows()) total += rows;
  }
  const uint64_t joined =
      std::clamp<uint64_t>(total / kUnits, 1, kMaxJoinedRows);
  std::vector<data::DataRange> units;
  for (uint32_t source = 0; source < files.size(); ++source) {
    uint64_t begin = 0;
    uint64_t end = 0;
    const auto add = [&] {
      if (end > begin) {
        units.push_back({.source = source, .begin = begin, .end = end});
      }
      begin = end;
    };
    for (const uint64_t rows : files[source].group_rows()) {
      if (end + rows - begin > joined) add();
      end += rows;
    }
    add();
  }
  return units;
}

}  // namespace oarlock::worker
