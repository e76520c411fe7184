#include "worker/geo/geo_replica.h"

#include <utility>

#include "absl/memory/memory.h"
#include "base/call_and_wait.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::worker {
namespace {

// Rows that are pulled at a time, which bounds the memory of a pull.
constexpr size_t kPullRows = size_t{1} << 20;

// What a pull points to; shared with gRPC's send buffers.
struct PullMemory {
  client::KeyBatch keys;
  std::vector<float> values;
};

// What a push points to.
struct PushMemory {
  std::vector<GeoChanges> rows;
  std::shared_ptr<const void> dense;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GeoReplica>> GeoReplica::Create(
    const TablePlan& plan, uint32_t num_workers, uint64_t rows_max,
    client::ParameterClient* client) {
  OARLOCK_CHECK(!plan.tables.empty());
  OARLOCK_CHECK(plan.local_optimizers.size() == plan.tables.size());
  std::vector<optim::UpdateRule> rules;
  for (const v1::OptimizerConfig& optimizer : plan.local_optimizers) {
    OARLOCK_ASSIGN_OR_RETURN(optim::UpdateRule rule,
                             optim::UpdateRule::Create(optimizer));
    rules.push_back(std::move(rule));
  }
  return absl::WrapUnique(
      new GeoReplica(plan, rules, num_workers, rows_max, client));
}

GeoReplica::GeoReplica(const TablePlan& plan,
                       const std::vector<optim::UpdateRule>& rules,
                       uint32_t num_workers, uint64_t rows_max,
                       client::ParameterClient* client)
    : plan_(plan),
      rules_(rules),
      num_workers_(num_workers),
      rows_max_(rows_max),
      client_(client),
      // The dense table stands last; without one this updates nothing.
      dense_(rules.back(), num_workers),
      marked_(plan.sparse_tables.size()) {
  for (size_t i = 0; i < plan.sparse_tables.size(); ++i) {
    tables_.push_back(
        {plan.sparse_tables[i], GeoRows(rules[i], plan.tables[i].sparse().dim(),
                                        client->partition_bits())});
  }
}

std::unique_ptr<GeoReplica> GeoReplica::NewEmpty() const {
  return absl::WrapUnique(
      new GeoReplica(plan_, rules_, num_workers_, rows_max_, client_));
}

absl::Status GeoReplica::Refresh() {
  for (size_t i = 0; i < tables_.size(); ++i) {
    Table& table = tables_[i];
    OARLOCK_ASSIGN_OR_RETURN(client::ChangedRows changes,
                             client_->ListChanges(table.id, &table.marks));
    if (i == 0) versions_ = std::move(changes.versions);
    if (changes.any) {
      table.changed = table.rows.keys();
      continue;
    }
    table.rows.FindKept(changes.keys, &table.changed);
    absl::MutexLock lock(&mutex_);
    table.rows.FindKept(marked_[i], &table.changed);
    marked_[i].clear();
  }
  return absl::OkStatus();
}

absl::Status GeoReplica::Fetch(absl::Span<GeoStep> steps) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    Table& table = tables_[i];
    // Missing rows are added to those that have changed.
    for (GeoStep& step : steps) {
      step.rows.resize(tables_.size());
      table.rows.Find(step.buffer->inputs[i].keys.keys(), &step.rows[i],
                      &table.changed);
    }
    for (size_t begin = 0; begin < table.changed.size(); begin += kPullRows) {
      OARLOCK_RETURN_IF_ERROR(
          Pull(&table,
               absl::MakeConstSpan(table.changed).subspan(begin, kPullRows)));
    }
    table.changed.clear();
  }
  return absl::OkStatus();
}

absl::Status GeoReplica::Pull(Table* table, absl::Span<const Key> keys) {
  auto memory = std::make_shared<PullMemory>();
  memory->keys.Build(keys, client_->partition_bits());
  const std::vector<Key>& distinct = memory->keys.keys();
  memory->values.resize(distinct.size() * table->rows.dim());
  OARLOCK_RETURN_IF_ERROR(CallAndWait([&](client::ParameterClient::Done done) {
    client_->PullSparse(table->id, memory->keys, memory->values.data(),
                        /*versions=*/nullptr, memory, std::move(done));
  }));
  table->rows.Install(distinct, memory->values.data());
  return absl::OkStatus();
}

void GeoReplica::Gather(const GeoStep& step) const {
  for (size_t i = 0; i < tables_.size(); ++i) {
    tables_[i].rows.Gather(step.rows[i], step.buffer->inputs[i].rows.data());
  }
}

bool GeoReplica::KeepsStatistics(size_t table) const {
  return plan_.tables[table].sparse().accessor() == v1::CTR;
}

void GeoReplica::Apply(absl::Span<const GeoStep* const> steps,
                       const float* dense_gradients, bool statistics) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    Table& table = tables_[i];
    const bool counts = statistics && KeepsStatistics(i);
    std::vector<MergedGradients::Source> sources;
    for (const GeoStep* step : steps) {
      const SparseInputBuffer& input = step->buffer->inputs[i];
      sources.push_back({&input.keys, input.gradients.data()});
      if (!counts) continue;
      table.rows.Count(step->rows[i], input.statistics.shows().data(),
                       input.statistics.clicks().data());
    }
    if (sources.size() == 1) {
      table.rows.Apply(*sources[0].keys, steps[0]->rows[i],
                       sources[0].gradients);
      continue;
    }
    table.merged.Merge(sources, table.rows.dim(), client_->partition_bits());
    key_scratch_.clear();
    table.rows.Find(table.merged.keys().keys(), &row_scratch_, &key_scratch_);
    OARLOCK_CHECK(key_scratch_.empty());
    table.rows.Apply(table.merged.keys(), row_scratch_,
                     table.merged.gradients());
  }
  if (dense_gradients != nullptr) dense_.Apply(dense_gradients);
}

std::shared_ptr<const void> GeoReplica::TakeChanges(bool rows, bool dense,
                                                    bool statistics,
                                                    client::PushRequest* push) {
  auto memory = std::make_shared<PushMemory>();
  memory->rows.resize(tables_.size());
  for (size_t i = 0; rows && i < tables_.size(); ++i) {
    GeoChanges& changes = memory->rows[i];
    const bool counts = statistics && KeepsStatistics(i);
    tables_[i].rows.TakeChanges(counts, &changes);
    push->sparse.push_back(
        {tables_[i].id, &changes.keys, changes.differences.data()});
    if (!counts) continue;
    push->sparse.back().shows = changes.shows.data();
    push->sparse.back().clicks = changes.clicks.data();
  }
  if (dense && plan_.dense_table != TableId(0)) {
    GeoDense::Exchange exchange = dense_.TakeChanges(plan_.dense_table);
    push->dense.push_back(exchange.gradients);
    memory->dense = std::move(exchange.memory);
  }
  return memory;
}

void GeoReplica::Pushed() {
  dense_.Install();
  for (Table& table : tables_) {
    if (table.rows.num_rows() <= rows_max_) continue;
    // Further down, so that it is not done each time.
    table.rows.Shrink(rows_max_ - rows_max_ / 8);
  }
}

void GeoReplica::MarkChanged(size_t input, const std::vector<Key>& keys) {
  absl::MutexLock lock(&mutex_);
  marked_[input].insert(marked_[input].end(), keys.begin(), keys.end());
}

uint64_t GeoReplica::num_rows() const {
  uint64_t rows = 0;
  for (const Table& table : tables_) rows += table.rows.num_rows();
  return rows;
}

}  // namespace oarlock::worker
