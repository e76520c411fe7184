#include "tests/stress/table_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/mix.h"
#include "optim/initializer.h"
#include "wire/value_format.h"

namespace oarlock {
namespace {

// Of a configuration that the servers take too.
template <typename T>
T Legal(absl::StatusOr<T> made) {
  OARLOCK_CHECK(made.ok());
  return *std::move(made);
}

v1::TableConfig ExtendedFromTheStart(v1::TableConfig config) {
  config.mutable_sparse()->set_extended_threshold(0);
  return config;
}

// One update by the rule's own loop.
void Update(const optim::UpdateRule& rule, uint64_t step, float* w,
            float* state, const float* g, size_t n) {
  rule.Visit(
      [&](const auto& own) { rule.ForStep(own, step).Apply(w, state, g, n); });
}

}  // namespace

std::vector<float> AsOnTheWire(v1::ValueFormat format,
                               absl::Span<const float> values) {
  std::vector<float> arrived(values.begin(), values.end());
  for (float& value : arrived) {
    if (format == v1::BFLOAT16)
      value = wire::FromBfloat16(wire::ToBfloat16(value));
    if (format == v1::FLOAT16)
      value = wire::FromFloat16(wire::ToFloat16(value));
  }
  return arrived;
}

SparseModel::SparseModel(const v1::TableConfig& config, int partition_bits)
    : rules_(Legal(sparse_table::RowRules::Create(config, partition_bits))),
      extended_rules_(Legal(sparse_table::RowRules::Create(
          ExtendedFromTheStart(config), partition_bits))),
      partitions_(size_t{1} << partition_bits) {
  for (Partition& partition : partitions_) {
    partition.sketch = rules_.admission().NewSketch();
  }
}

void SparseModel::Apply(const ModelPush& push) {
  size_t index = 0;
  for (const KeyGroup& group : push.groups) {
    Partition& partition = partitions_[group.partition.value()];
    ++partition.num_pushes;
    for (const size_t end = index + group.num_keys; index < end; ++index) {
      Apply(&partition, push, index);
    }
  }
}

void SparseModel::Apply(Partition* partition, const ModelPush& push,
                        size_t index) {
  const Key key = push.keys[index];
  const float show = push.shows == nullptr ? 0 : push.shows[index];
  const float click = push.clicks == nullptr ? 0 : push.clicks[index];
  const sparse_table::ScoreRule& score = rules_.score_rule();
  auto found = rows_.find(key);
  if (found == rows_.end()) {
    // Nobody is admitted by chance, so it does not matter who draws.
    if (!rules_.admission().Admit(/*draws=*/0, key, Mix(key),
                                  score.Score(show, click),
                                  partition->sketch.get())) {
      return;
    }
    found = rows_.emplace(key, NewRow(key)).first;
  }
  ModelRow& row = found->second;
  std::vector<float> gradient(push.gradients + index * dim(),
                              push.gradients + (index + 1) * dim());
  if (rules_.divides_by_show() && show > 0) {
    for (float& g : gradient) g /= show;
  }
  row.version = partition->num_pushes;
  const size_t head = rules_.embedding_dim();
  Update(rules_.rule(), row.version, row.values.data(), row.state.data(),
         gradient.data(), head);
  if (row.extended) {
    Update(rules_.extended_rule(), row.version, row.values.data() + head,
           row.state.data() + embedding_state(), gradient.data() + head,
           rules_.extended_dim());
  }
  if (!rules_.layout().has_statistics()) return;
  row.show += show;
  row.click += click;
  if (!row.extended && rules_.WantsExtended(score.Score(row.show, row.click))) {
    CreateExtended(key, &row);
  }
}

ModelRow SparseModel::NewRow(Key key) const {
  ModelRow row;
  row.values.resize(dim());
  row.state.resize(rules_.layout().state_size());
  rules_.FillInitial(key, row.values.data());
  rules_.rule().InitState(row.state.data(), rules_.embedding_dim());
  if (rules_.extended_dim() != 0 && rules_.WantsExtended(0)) {
    CreateExtended(key, &row);
  }
  return row;
}

void SparseModel::CreateExtended(Key key, ModelRow* row) const {
  const size_t head = rules_.embedding_dim();
  std::vector<float> initial(dim());
  extended_rules_.FillInitial(key, initial.data());
  std::copy(initial.begin() + head, initial.end(), row->values.begin() + head);
  rules_.extended_rule().InitState(row->state.data() + embedding_state(),
                                   rules_.extended_dim());
  row->extended = true;
}

std::vector<float> SparseModel::Pull(Key key) const {
  const auto found = rows_.find(key);
  if (found != rows_.end()) return found->second.values;
  std::vector<float> values(dim());
  rules_.FillInitial(key, values.data());
  return values;
}

std::vector<std::byte> SparseModel::Pack(Key key, const ModelRow& row) const {
  std::vector<std::byte> packed;
  const auto append = [&packed](const auto* data, size_t n) {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    packed.insert(packed.end(), bytes, bytes + n * sizeof(*data));
  };
  append(&key, 1);
  if (rules_.layout().has_statistics()) {
    append(&row.show, 1);
    append(&row.click, 1);
  }
  append(row.values.data(), row.values.size());
  append(row.state.data(), row.state.size());
  return packed;
}

DenseModel::DenseModel(const v1::TableConfig& config)
    : rule_(Legal(optim::UpdateRule::Create(config.optimizer()))) {
  const v1::DenseTableConfig& dense = config.dense();
  std::vector<float> values(dense.size());
  for (const v1::DenseParameter& parameter : dense.parameters()) {
    uint64_t size = 1;
    for (const uint64_t length : parameter.shape()) size *= length;
    Legal(optim::InitialValues::Create(parameter.initializer(), config.seed(),
                                       TableId(config.id())))
        .FillRange(parameter.offset(), values.data() + parameter.offset(),
                   size);
  }
  for (size_t begin = 0; begin < values.size(); begin += dense.block_size()) {
    const size_t end =
        std::min<size_t>(values.size(), begin + dense.block_size());
    Block& block = blocks_.emplace_back();
    block.values.assign(values.begin() + begin, values.begin() + end);
    block.state.resize(rule_.StateSize(end - begin));
    rule_.InitState(block.state.data(), end - begin);
  }
}

void DenseModel::Apply(absl::Span<const float> gradients, uint32_t num_steps) {
  const float* gradient = gradients.data();
  for (Block& block : blocks_) {
    block.steps += num_steps;
    Update(rule_, block.steps, block.values.data(), block.state.data(),
           gradient, block.values.size());
    gradient += block.values.size();
  }
}

std::vector<float> DenseModel::Pull() const {
  std::vector<float> values;
  for (const Block& block : blocks_) {
    values.insert(values.end(), block.values.begin(), block.values.end());
  }
  return values;
}

}  // namespace oarlock
