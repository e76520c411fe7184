#include "tests/pserver/service/push_testing.h"

#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/mix.h"
#include "base/random.h"
#include "cluster/partition_map.h"
#include "cluster/wire_version.h"

namespace oarlock::pserver {
namespace {

template <typename T>
wire::SlicedBytes BytesOf(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return wire::SlicedBytes(std::move(bytes));
}

v1::TableConfig CommonConfig(uint32_t id, const char* name, float learning_rate,
                             v1::UpdateMode mode,
                             v1::GradientReduction reduction) {
  v1::TableConfig config;
  config.set_id(id);
  config.set_name(name);
  config.set_mode(mode);
  config.set_reduction(reduction);
  config.set_seed(7);
  config.mutable_optimizer()->set_learning_rate(learning_rate);
  config.mutable_optimizer()->mutable_sgd();
  return config;
}

PartitionIndex PartitionOf(Key key) {
  return PartitionOfMix(Mix(key), kTestPartitionBits);
}

}  // namespace

v1::TableConfig SparseConfig(uint32_t dim, float learning_rate,
                             v1::UpdateMode mode,
                             v1::GradientReduction reduction) {
  v1::TableConfig config =
      CommonConfig(1, "embedding", learning_rate, mode, reduction);
  config.mutable_sparse()->set_dim(dim);
  config.mutable_sparse()->set_accessor(v1::PLAIN);
  return config;
}

v1::TableConfig DenseConfig(uint64_t size, uint32_t block_size,
                            float learning_rate, v1::UpdateMode mode,
                            v1::GradientReduction reduction) {
  v1::TableConfig config =
      CommonConfig(2, "net", learning_rate, mode, reduction);
  config.mutable_dense()->set_size(size);
  config.mutable_dense()->set_block_size(block_size);
  return config;
}

std::unique_ptr<sparse_table::SparseTable> MakeSparse(
    const v1::TableConfig& config) {
  auto table = sparse_table::SparseTable::Create(config, kTestPartitionBits);
  OARLOCK_CHECK(table.ok());
  return *std::move(table);
}

std::unique_ptr<sparse_table::DenseTable> MakeDense(
    const v1::TableConfig& config, uint32_t num_servers, uint32_t server) {
  auto table = sparse_table::DenseTable::Create(
      config,
      cluster::PartitionMap::Even(1u << kTestPartitionBits, num_servers),
      ServerIndex(server));
  OARLOCK_CHECK(table.ok());
  return *std::move(table);
}

v1::RequestHeader PushHeader(uint32_t worker, uint64_t generation,
                             uint64_t sequence, uint64_t round) {
  v1::RequestHeader header;
  header.set_protocol_version(cluster::kProtocolVersion);
  header.set_worker_index(worker);
  header.set_worker_generation(generation);
  header.set_sequence(sequence);
  header.set_oldest_unanswered(sequence);
  header.set_routing_generation(1);
  header.set_message_index(0);
  header.set_message_count(1);
  header.set_table_message_count(1);
  header.set_round(round);
  return header;
}

wire::PushSparseRequestView SparsePushOf(const v1::RequestHeader& header,
                                         const SparseGradients& gradients) {
  std::map<PartitionIndex, std::vector<Key>> groups;
  for (const auto& [key, gradient] : gradients) {
    groups[PartitionOf(key)].push_back(key);
  }
  wire::PushSparseRequestView push;
  push.header = header;
  push.table = TableId(1);
  std::vector<Key> all_keys;
  std::vector<float> values;
  for (const auto& [partition, keys] : groups) {
    push.groups.push_back({.partition = partition,
                           .num_keys = static_cast<uint32_t>(keys.size())});
    for (const Key key : keys) {
      const std::vector<float>& gradient = gradients.at(key);
      all_keys.push_back(key);
      values.insert(values.end(), gradient.begin(), gradient.end());
    }
  }
  push.num_keys = all_keys.size();
  push.num_values = values.size();
  push.keys = BytesOf(all_keys);
  push.values = wire::ReceivedFloats(BytesOf(values));
  return push;
}

wire::PushDenseRequestView DensePushOf(const v1::RequestHeader& header,
                                       const DenseGradients& gradients) {
  wire::PushDenseRequestView push;
  push.header = header;
  push.table = TableId(2);
  std::vector<float> values;
  for (const auto& [block, gradient] : gradients) {
    push.blocks.push_back(block);
    values.insert(values.end(), gradient.begin(), gradient.end());
  }
  push.num_values = values.size();
  push.values = wire::ReceivedFloats(BytesOf(values));
  return push;
}

std::vector<SparseGradients> CutByPartition(const SparseGradients& gradients,
                                            uint32_t num_messages) {
  std::vector<SparseGradients> messages(num_messages);
  for (const auto& [key, gradient] : gradients) {
    messages[PartitionOf(key).value() % num_messages][key] = gradient;
  }
  return messages;
}

SparseGradients RandomGradients(uint64_t seed, uint32_t num_keys,
                                uint64_t key_bound, uint32_t dim) {
  RandomSequence random(seed);
  SparseGradients gradients;
  for (uint32_t i = 0; i < num_keys; ++i) {
    std::vector<float>& gradient =
        gradients[static_cast<Key>(random.Below(key_bound))];
    gradient.resize(dim);
    for (float& g : gradient) g = static_cast<float>(random.Uniform() - 0.5);
  }
  return gradients;
}

SparseGradients RowsOf(const sparse_table::SparseTable& table) {
  SparseGradients rows;
  const absl::Status visited = table.ForEachRow(
      [&](PartitionIndex, const sparse_table::SparseTable::RowView& row) {
        rows[row.key].assign(row.embedding.begin(), row.embedding.end());
      });
  OARLOCK_CHECK(visited.ok());
  return rows;
}

std::vector<float> BlockOf(const sparse_table::DenseTable& table,
                           BlockIndex block) {
  std::vector<float> values(table.BlockSize(block));
  table.Pull(block, 0, values.data());
  return values;
}

void SgdModel::Apply(const SparseGradients& gradients) {
  for (const auto& [key, gradient] : gradients) {
    std::vector<float>& row = rows_[key];
    row.resize(gradient.size());
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] -= learning_rate_ * gradient[i];
    }
  }
}

void SgdModel::ApplyRound(
    const std::vector<const SparseGradients*>& contributions,
    uint32_t divisor) {
  SparseGradients sums;
  for (const SparseGradients* gradients : contributions) {
    for (const auto& [key, gradient] : *gradients) {
      std::vector<float>& sum = sums[key];
      if (sum.empty()) {
        sum = gradient;
      } else {
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
      }
    }
  }
  for (auto& [key, sum] : sums) {
    for (float& s : sum) s /= static_cast<float>(divisor);
  }
  Apply(sums);
}

}  // namespace oarlock::pserver
