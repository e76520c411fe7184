#include "tests/worker/training_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "data/order/example_reader.h"
#include "data/order/source_index.h"
#include "data/parse/bad_lines.h"
#include "data/reader/file_list.h"
#include "fleet/local_cluster.h"
#include "models/model.h"
#include "tests/client/blocking_calls.h"
#include "worker/config/data_options_of.h"
#include "worker/config/model_of.h"
#include "worker/config/table_plan.h"

namespace oarlock::worker {
namespace {

// Hands out what it is given.
class ListedRanges : public data::RangeSource {
 public:
  explicit ListedRanges(const std::vector<data::DataRange>& items)
      : items_(items.begin(), items.end()) {}
  absl::StatusOr<std::optional<data::DataRange>> Next() override {
    if (items_.empty()) return std::nullopt;
    const data::DataRange item = items_.front();
    items_.pop_front();
    return item;
  }
  void Done(const data::DataRange&) override {}

 private:
  std::deque<data::DataRange> items_;
};

// All keys of the training files, ascending.
absl::StatusOr<std::vector<Key>> KeysOf(const v1::JobConfig& config) {
  std::vector<std::string> files;
  for (const std::string& pattern : config.train_files()) {
    OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> some,
                             data::ExpandFileList(pattern));
    files.insert(files.end(), some.begin(), some.end());
  }
  ListedRanges ranges(data::WholeFileItems(files.size()));
  data::BadLines bad_lines;
  data::BatchReader reader(DataOptionsOf(config), files, &ranges, &bad_lines);
  std::set<Key> keys;
  data::Batch batch;
  for (;;) {
    OARLOCK_ASSIGN_OR_RETURN(const bool more, reader.Next(1000, &batch));
    if (!more) break;
    keys.insert(batch.keys.begin(), batch.keys.end());
  }
  return std::vector<Key>(keys.begin(), keys.end());
}

absl::StatusOr<TablePlan> PlanOf(const v1::JobConfig& config,
                                 uint32_t num_workers) {
  OARLOCK_ASSIGN_OR_RETURN(
      const std::unique_ptr<models::Model> model,
      ModelOf(config, data::SchemaOf(DataOptionsOf(config))));
  return PlanTables(model->spec(), config, num_workers);
}

absl::StatusOr<Parameters> ReadParameters(const v1::JobConfig& config,
                                          const TablePlan& plan,
                                          client::ParameterClient& client) {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<Key> used, KeysOf(config));
  Parameters parameters;
  for (size_t i = 0; i < plan.sparse_tables.size(); ++i) {
    const size_t dim = plan.tables[i].sparse().dim();
    // What norms learn, as far as tests have it, is one row.
    const std::vector<Key> keys =
        absl::StartsWith(plan.tables[i].name(), "statistics")
            ? std::vector<Key>{Key{0}}
            : used;
    client::RowBatch rows;
    OARLOCK_RETURN_IF_ERROR(
        client::PullRows(client, plan.sparse_tables[i], keys, dim, &rows));
    for (const uint32_t row : rows.keys.row_of_key()) {
      parameters.insert(parameters.end(), &rows.values[row * dim],
                        &rows.values[row * dim] + dim);
    }
  }
  if (plan.dense_table != TableId(0)) {
    client::DenseReplica replica;
    OARLOCK_RETURN_IF_ERROR(
        client::PullAll(client, plan.dense_table, &replica));
    parameters.insert(parameters.end(), replica.values.begin(),
                      replica.values.end());
  }
  return parameters;
}

// One worker's part. The first worker fills `outcome`.
absl::Status Work(const v1::JobConfig& config,
                  client::ParameterClient& parameters, client::JobClient& job,
                  const TrainerOptions& options, JobOutcome* outcome,
                  const std::string& math_backend = "") {
  std::unique_ptr<models::Model> model;
  if (!math_backend.empty()) {
    OARLOCK_ASSIGN_OR_RETURN(
        model,
        ModelOf(config, data::SchemaOf(DataOptionsOf(config)), math_backend));
  }
  OARLOCK_ASSIGN_OR_RETURN(
      const std::unique_ptr<Trainer> trainer,
      model == nullptr ? Trainer::Create(config, &parameters, &job, options)
                       : Trainer::Create(config, std::move(model), &parameters,
                                         &job, options));
  OARLOCK_ASSIGN_OR_RETURN(TrainingSummary summary, trainer->Run());
  if (job.worker_index() != WorkerIndex(0)) return absl::OkStatus();
  outcome->summary = std::move(summary);
  OARLOCK_ASSIGN_OR_RETURN(outcome->status, job.GetJobStatus());
  OARLOCK_ASSIGN_OR_RETURN(const TablePlan plan,
                           PlanOf(config, job.num_workers()));
  OARLOCK_ASSIGN_OR_RETURN(outcome->parameters,
                           ReadParameters(config, plan, parameters));
  return absl::OkStatus();
}

}  // namespace

bool JobOutcome::ok() const {
  return std::all_of(statuses.begin(), statuses.end(),
                     [](const absl::Status& status) { return status.ok(); });
}

const v1::PhaseStatus& JobOutcome::Phase(const std::string& phase,
                                         uint32_t epoch) const {
  for (const v1::PhaseStatus& candidate : status.phases()) {
    if (candidate.progress().phase() == phase &&
        candidate.progress().epoch() == epoch) {
      return candidate;
    }
  }
  ADD_FAILURE() << "there was no phase " << phase << "/" << epoch;
  return v1::PhaseStatus::default_instance();
}

JobOutcome RunLocalJob(const v1::JobConfig& config) {
  LocalParameterClient parameters(config.num_partitions());
  return RunLocalJob(config, &parameters);
}

JobOutcome RunLocalJob(const v1::JobConfig& config,
                       const std::string& math_backend) {
  LocalParameterClient parameters(config.num_partitions());
  JobOutcome outcome;
  LocalJobClient job;
  outcome.statuses.push_back(
      Work(config, parameters, job, TrainerOptions(), &outcome, math_backend));
  return outcome;
}

JobOutcome RunLocalJob(const v1::JobConfig& config,
                       LocalParameterClient* parameters) {
  JobOutcome outcome;
  LocalJobClient job;
  outcome.statuses.push_back(
      Work(config, *parameters, job, TrainerOptions(), &outcome));
  return outcome;
}

JobOutcome RunClusterJob(const v1::JobConfig& config, uint32_t num_servers,
                         uint32_t num_workers) {
  MiniClusterOptions options;
  options.num_servers = num_servers;
  options.num_workers = num_workers;
  return RunClusterJob(config, options);
}

JobOutcome RunClusterJob(const v1::JobConfig& config,
                         const MiniClusterOptions& options,
                         const TrainerOptions& trainer) {
  JobOutcome outcome;
  outcome.statuses.resize(options.num_workers);
  const auto cluster = MiniCluster::Start(options);
  if (!cluster.ok()) {
    outcome.statuses.assign(options.num_workers, cluster.status());
    return outcome;
  }
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < options.num_workers; ++w) {
    threads.emplace_back([&, w] {
      absl::Status& status = outcome.statuses[w];
      const auto worker = MiniWorker::Join(**cluster, w);
      status = worker.status();
      if (!status.ok()) return;
      status = Work(config, (*worker)->parameters(), (*worker)->job(), trainer,
                    &outcome);
      const absl::Status finished = (*worker)->job().Finish(status);
      if (status.ok()) status = finished;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

Parameters InitialParameters(const v1::JobConfig& config) {
  LocalParameterClient client(config.num_partitions());
  const absl::StatusOr<TablePlan> plan = PlanOf(config, 1);
  EXPECT_TRUE(plan.ok()) << plan.status();
  for (const v1::TableConfig& table : plan->tables) {
    EXPECT_TRUE(client.CreateTable(table).ok());
  }
  absl::StatusOr<Parameters> parameters = ReadParameters(config, *plan, client);
  EXPECT_TRUE(parameters.ok()) << parameters.status();
  return *std::move(parameters);
}

float LargestDifference(const Parameters& a, const Parameters& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    // NaN is no equality either.
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace oarlock::worker
