#include "tests/stress/oracle_thread.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "tests/client/blocking_calls.h"
#include "tests/stress/oracle_tables.h"

namespace oarlock {
namespace {

// Keys of a table, of all threads.
constexpr uint32_t kKeys = 1200;
// Of one that does not fit into its memory.
constexpr uint32_t kColdKeys = 24'000;
// Mostly; one in kLargePeriod goes to more, so that servers are often killed
// between two of its messages.
constexpr uint32_t kMaxTablesPerPush = 4;
constexpr uint32_t kMaxTablesOfLarge = 24;
constexpr uint32_t kLargePeriod = 8;
constexpr uint32_t kMaxKeysPerTable = 60;
// Of so many pushes one carries dense gradients too, and one is looked at.
constexpr uint32_t kDensePeriod = 4;
constexpr uint32_t kLookPeriod = 4;
constexpr uint32_t kMaxSteps = 3;
constexpr uint32_t kMaxShows = 4;

// Some zeros, some tiny, some large.
float RandomGradient(RandomSequence* random) {
  if (random->Below(8) == 0) return 0;
  const double scale = std::pow(10.0, 4.0 * random->Uniform() - 3.0);
  return static_cast<float>((random->Uniform() - 0.5) * scale);
}

std::vector<float> RandomGradients(size_t n, RandomSequence* random) {
  std::vector<float> gradients(n);
  for (float& g : gradients) g = RandomGradient(random);
  return gradients;
}

// Keys of which each thread has its share; all of a partition's where the table
// asks for that.
std::vector<Key> KeysOfThread(const v1::TableConfig& table, int partition_bits,
                              uint32_t thread, uint32_t num_threads) {
  const uint64_t stream = DeriveSeed(table.seed(), table.id());
  const bool by_partition = IsOrderedByPartition(table);
  const uint32_t num_keys =
      table.sparse().memory_budget_bytes() == 0 ? kKeys : kColdKeys;
  std::vector<Key> keys;
  for (uint32_t number = 0; number < num_keys; ++number) {
    const Key key{DeriveSeed(stream, number)};
    const uint32_t owner =
        by_partition ? PartitionOfMix(Mix(key), partition_bits).value()
                     : number;
    if (owner % num_threads == thread) keys.push_back(key);
  }
  return keys;
}

}  // namespace

client::PushRequest OraclePush::Request() {
  client::PushRequest request;
  const auto or_null = [](const std::vector<float>& values) {
    return values.empty() ? nullptr : values.data();
  };
  for (const Rows& table : rows) {
    request.sparse.push_back({table.table, &table.keys, table.gradients.data(),
                              or_null(table.shows), or_null(table.clicks)});
  }
  for (Dense& table : dense) {
    request.dense.push_back({table.table, table.gradients.data(),
                             table.num_steps,
                             table.wants_updated ? &table.updated : nullptr});
  }
  return request;
}

OracleThread::OracleThread(const std::vector<v1::TableConfig>& tables,
                           int partition_bits, uint64_t seed, uint32_t index,
                           uint32_t num_threads, v1::ValueFormat format)
    : partition_bits_(partition_bits),
      seed_(DeriveSeed(seed, index)),
      index_(index),
      format_(format) {
  uint32_t num_dense = 0;
  for (const v1::TableConfig& table : tables) {
    const TableId id(table.id());
    configs_.emplace(id, table);
    if (table.has_sparse()) {
      sparse_tables_.push_back(id);
      keys_.emplace(id,
                    KeysOfThread(table, partition_bits, index, num_threads));
      rows_.try_emplace(id, table, partition_bits);
    } else if (num_dense++ % num_threads == index) {
      dense_tables_.push_back(id);
      dense_.try_emplace(id, table);
    }
  }
}

OraclePush::Rows OracleThread::MakeRows(TableId table,
                                        RandomSequence* random) const {
  const v1::SparseTableConfig& config = configs_.at(table).sparse();
  const std::vector<Key>& own = keys_.at(table);
  OraclePush::Rows rows;
  rows.table = table;
  std::vector<Key> keys;
  for (uint64_t n = 1 + random->Below(kMaxKeysPerTable); n > 0; --n) {
    keys.push_back(own[random->Below(own.size())]);
  }
  rows.keys.Build(keys, partition_bits_);
  const size_t num_keys = rows.keys.keys().size();
  rows.gradients = RandomGradients(num_keys * config.dim(), random);
  if (config.accessor() == v1::CTR && random->Below(8) != 0) {
    for (size_t i = 0; i < num_keys; ++i) {
      const uint64_t show = random->Below(kMaxShows);
      rows.shows.push_back(static_cast<float>(show));
      rows.clicks.push_back(static_cast<float>(random->Below(show + 1)));
    }
  }
  return rows;
}

OraclePush::Dense OracleThread::MakeDense(TableId table,
                                          RandomSequence* random) const {
  OraclePush::Dense dense;
  dense.table = table;
  dense.gradients = RandomGradients(configs_.at(table).dense().size(), random);
  dense.num_steps = static_cast<uint32_t>(1 + random->Below(kMaxSteps));
  dense.wants_updated = random->Below(2) == 0;
  return dense;
}

std::shared_ptr<OraclePush> OracleThread::NextPush() const {
  RandomSequence random(DeriveSeed(seed_, num_pushes_ + 1));
  auto push = std::make_shared<OraclePush>();
  std::vector<TableId> tables;
  const uint32_t max_tables =
      random.Below(kLargePeriod) == 0 ? kMaxTablesOfLarge : kMaxTablesPerPush;
  for (uint64_t n = 1 + random.Below(max_tables); n > 0; --n) {
    const TableId table = sparse_tables_[random.Below(sparse_tables_.size())];
    if (std::find(tables.begin(), tables.end(), table) != tables.end()) {
      continue;
    }
    tables.push_back(table);
    push->rows.push_back(MakeRows(table, &random));
  }
  if (!dense_tables_.empty() && random.Below(kDensePeriod) == 0) {
    push->dense.push_back(
        MakeDense(dense_tables_[random.Below(dense_tables_.size())], &random));
  }
  push->is_looked_at = random.Below(kLookPeriod) == 0;
  return push;
}

absl::Status OracleThread::Acknowledged(const OraclePush& push) {
  ++num_pushes_;
  for (const OraclePush::Rows& table : push.rows) {
    const std::vector<float> gradients = AsOnTheWire(format_, table.gradients);
    ModelPush rows;
    rows.groups = table.keys.groups();
    rows.keys = table.keys.keys();
    rows.gradients = gradients.data();
    if (!table.shows.empty()) {
      rows.shows = table.shows.data();
      rows.clicks = table.clicks.data();
    }
    rows_.at(table.table).Apply(rows);
  }
  for (const OraclePush::Dense& table : push.dense) {
    DenseModel& model = dense_.at(table.table);
    model.Apply(AsOnTheWire(format_, table.gradients), table.num_steps);
    if (!table.wants_updated) continue;
    OARLOCK_RETURN_IF_ERROR(
        Compare(absl::StrCat("table '", configs_.at(table.table).name(),
                             "' as its push answered it"),
                table.updated.values.data(), model.Pull()));
  }
  return absl::OkStatus();
}

absl::Status OracleThread::Compare(const std::string& what, const float* got,
                                   const std::vector<float>& wanted) const {
  const std::vector<float> rounded = AsOnTheWire(format_, wanted);
  for (size_t i = 0; i < rounded.size(); ++i) {
    if (std::memcmp(&got[i], &rounded[i], sizeof(float)) == 0) continue;
    return absl::DataLossError(absl::StrFormat(
        "thread %d after push %d: %s: value %d is %.9g, the model has %.9g",
        index_, num_pushes_, what, i, got[i], rounded[i]));
  }
  return absl::OkStatus();
}

absl::Status OracleThread::LookAtRows(client::ParameterClient* client,
                                      TableId table,
                                      const std::vector<Key>& keys) const {
  const v1::TableConfig& config = configs_.at(table);
  const uint32_t dim = config.sparse().dim();
  client::RowBatch pulled;
  OARLOCK_RETURN_IF_ERROR(client::PullRows(*client, table, keys, dim, &pulled));
  for (size_t i = 0; i < pulled.keys.keys().size(); ++i) {
    const Key key = pulled.keys.keys()[i];
    OARLOCK_RETURN_IF_ERROR(
        Compare(absl::StrCat("table '", config.name(), "' pulled key ",
                             static_cast<uint64_t>(key)),
                &pulled.values[i * dim], rows_.at(table).Pull(key)));
  }
  return absl::OkStatus();
}

absl::Status OracleThread::LookAtAll(client::ParameterClient* client) const {
  for (const TableId table : sparse_tables_) {
    OARLOCK_RETURN_IF_ERROR(LookAtRows(client, table, keys_.at(table)));
  }
  for (const TableId table : dense_tables_) {
    client::DenseReplica pulled;
    OARLOCK_RETURN_IF_ERROR(client::PullAll(*client, table, &pulled));
    OARLOCK_RETURN_IF_ERROR(
        Compare(absl::StrCat("table '", configs_.at(table).name(), "' pulled"),
                pulled.values.data(), dense_.at(table).Pull()));
  }
  return absl::OkStatus();
}

}  // namespace oarlock
