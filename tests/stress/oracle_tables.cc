#include "tests/stress/oracle_tables.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "optim/rules.h"

namespace oarlock {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

constexpr float kLearningRate = 0.05f;
constexpr uint32_t kDim = 5;
constexpr uint32_t kOptionsDim = 8;
constexpr uint32_t kExtendedDim = 3;
constexpr uint32_t kColdDim = 16;
// The last block is a shorter one.
constexpr uint32_t kDenseSize = 150;
constexpr uint32_t kDenseBlockSize = 32;
// Little, so that keys share counters.
constexpr uint64_t kSketchBytes = 64 << 10;

// What makes a configuration is kept if it is legal with it.
template <typename Change>
void ChangeIfLegal(v1::OptimizerConfig* config, Change change) {
  v1::OptimizerConfig changed = *config;
  change(&changed);
  if (optim::UpdateRule::Create(changed).ok()) *config = changed;
}

const OneofDescriptor& Rules() {
  const OneofDescriptor* rules =
      v1::OptimizerConfig::descriptor()->FindOneofByName("rule");
  OARLOCK_CHECK(rules != nullptr);
  return *rules;
}

Message* RuleMessage(const FieldDescriptor& rule, v1::OptimizerConfig* config) {
  return config->GetReflection()->MutableMessage(config, &rule);
}

// The rule with the defaults of its numbers.
v1::OptimizerConfig PlainRule(const FieldDescriptor& rule) {
  v1::OptimizerConfig config;
  config.set_learning_rate(kLearningRate);
  RuleMessage(rule, &config);
  return config;
}

// Numbers of the rule itself, other than the defaults.
void SetNumbers(const FieldDescriptor& rule, RandomSequence* random,
                v1::OptimizerConfig* config) {
  const auto& numbers = *rule.message_type();
  for (int i = 0; i < numbers.field_count(); ++i) {
    const FieldDescriptor& number = *numbers.field(i);
    const float value = 0.5f + 0.4f * static_cast<float>(random->Uniform());
    ChangeIfLegal(config, [&](v1::OptimizerConfig* changed) {
      Message* const message = RuleMessage(rule, changed);
      if (number.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
        message->GetReflection()->SetFloat(message, &number, value);
      } else if (number.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
        message->GetReflection()->SetBool(message, &number, true);
      }
    });
  }
}

void SetSchedule(int kind, v1::LearningRateSchedule* schedule) {
  constexpr int kSteps = 200;
  switch (kind % 5) {
    case 0:
      schedule->mutable_exponential()->set_steps(kSteps);
      schedule->mutable_exponential()->set_rate(0.7f);
      return;
    case 1:
      schedule->mutable_polynomial()->set_steps(kSteps);
      schedule->mutable_polynomial()->set_end_factor(0.3f);
      schedule->mutable_polynomial()->set_power(2);
      return;
    case 2:
      schedule->mutable_cosine()->set_steps(kSteps);
      schedule->mutable_cosine()->set_end_factor(0.2f);
      return;
    case 3:
      schedule->mutable_step()->set_steps(kSteps);
      schedule->mutable_step()->set_rate(0.7f);
      return;
    default:
      for (const int piece : {1, 2, 3}) {
        auto* const added = schedule->mutable_piecewise()->add_pieces();
        added->set_until_step(piece * kSteps);
        added->set_factor(1.0f / static_cast<float>(piece));
      }
  }
}

v1::OptimizerConfig RuleWithOptions(int index, RandomSequence* random) {
  const FieldDescriptor& rule = *Rules().field(index);
  v1::OptimizerConfig config = PlainRule(rule);
  SetNumbers(rule, random, &config);
  ChangeIfLegal(&config, [](auto* changed) { changed->set_l1(0.01f); });
  ChangeIfLegal(&config, [](auto* changed) { changed->set_l2(0.02f); });
  config.mutable_weight_bounds()->set_lower(-0.6f);
  config.mutable_weight_bounds()->set_upper(0.7f);
  config.set_warmup_steps(20);
  SetSchedule(index, config.mutable_schedule());
  return config;
}

void SetInitializer(int kind, v1::Initializer* initializer) {
  switch (kind % 3) {
    case 0:
      return initializer->set_uniform_range(0.4f);
    case 1:
      return initializer->set_normal_stddev(0.3f);
    default:
      return initializer->set_constant(0.25f);
  }
}

// Show and click, an extended part that comes with them, admission.
void SetStatistics(int index, RandomSequence* random,
                   v1::SparseTableConfig* sparse) {
  sparse->set_accessor(v1::CTR);
  sparse->mutable_ctr()->set_non_click_coefficient(0.2f);
  sparse->mutable_ctr()->set_click_coefficient(0.9f);
  sparse->mutable_ctr()->set_divide_by_show(index % 2 == 0);
  sparse->set_extended_dim(kExtendedDim);
  sparse->set_extended_threshold(index % 4 == 3 ? 0 : 4);
  SetInitializer(index + 1, sparse->mutable_extended_initializer());
  *sparse->mutable_extended_optimizer() =
      RuleWithOptions((index + 1) % Rules().field_count(), random);
  if (index % 3 == 2) return;
  v1::AdmissionConfig* const admission = sparse->mutable_admission();
  admission->set_sketch_bytes(kSketchBytes);
  if (index % 3 == 0) {
    admission->mutable_count()->set_pushes(3);
  } else {
    admission->mutable_show_click()->set_score(2);
  }
}

v1::TableConfig EmptyTable(uint64_t seed, const std::string& name, size_t id) {
  v1::TableConfig table;
  table.set_id(static_cast<uint32_t>(id));
  table.set_name(name);
  table.set_mode(v1::ASYNC);
  table.set_reduction(v1::SUM);
  table.set_seed(seed);
  return table;
}

v1::TableConfig SparseTableOf(v1::TableConfig table,
                              const v1::OptimizerConfig& optimizer,
                              uint32_t dim) {
  *table.mutable_optimizer() = optimizer;
  table.mutable_sparse()->set_dim(dim);
  table.mutable_sparse()->set_accessor(v1::PLAIN);
  SetInitializer(static_cast<int>(table.id()),
                 table.mutable_sparse()->mutable_initializer());
  return table;
}

v1::TableConfig DenseTableOf(v1::TableConfig table,
                             const v1::OptimizerConfig& optimizer) {
  *table.mutable_optimizer() = optimizer;
  v1::DenseTableConfig* const dense = table.mutable_dense();
  dense->set_size(kDenseSize);
  dense->set_block_size(kDenseBlockSize);
  // Two parameters that meet inside a block.
  constexpr uint64_t kBounds[] = {0, 70, kDenseSize};
  for (int i = 0; i < 2; ++i) {
    v1::DenseParameter* const parameter = dense->add_parameters();
    parameter->set_name(absl::StrCat("parameter", i));
    parameter->set_offset(kBounds[i]);
    parameter->add_shape(kBounds[i + 1] - kBounds[i]);
    SetInitializer(i, parameter->mutable_initializer());
  }
  return table;
}

bool CountsSteps(const v1::OptimizerConfig& config) {
  if (config.warmup_steps() > 0 || config.has_schedule()) return true;
  const absl::StatusOr<optim::UpdateRule> rule =
      optim::UpdateRule::Create(config);
  OARLOCK_CHECK(rule.ok());
  const optim::AnyRule any(rule->Visit([](const auto& own) {
    if constexpr (std::is_same_v<std::decay_t<decltype(own)>, optim::AnyRule>) {
      return own;
    } else {
      return optim::AnyRule(own, optim::WeightOptions());
    }
  }));
  return std::visit(
      [](auto own) {
        return requires { own.BeginStep(uint64_t{1}); };
      },
      any.rule());
}

}  // namespace

std::vector<v1::TableConfig> OracleTables(uint64_t seed,
                                          uint64_t cold_memory_bytes) {
  RandomSequence random(seed);
  std::vector<v1::TableConfig> tables;
  const auto add = [&](v1::TableConfig table) {
    tables.push_back(std::move(table));
  };
  const auto empty = [&](const std::string& name) {
    return EmptyTable(seed, name, tables.size() + 1);
  };
  for (int i = 0; i < Rules().field_count(); ++i) {
    const FieldDescriptor& rule = *Rules().field(i);
    const std::string name(rule.name());
    add(SparseTableOf(empty(name), PlainRule(rule), kDim));
    add(SparseTableOf(empty(name + "_options"), RuleWithOptions(i, &random),
                      kOptionsDim));
    SetStatistics(i, &random, tables.back().mutable_sparse());
    add(DenseTableOf(
        empty(name + "_dense"),
        i % 2 == 0 ? PlainRule(rule) : RuleWithOptions(i, &random)));
  }
  v1::OptimizerConfig adam;
  adam.set_learning_rate(kLearningRate);
  adam.mutable_adam();
  add(SparseTableOf(empty("cold"), adam, kColdDim));
  tables.back().mutable_sparse()->set_memory_budget_bytes(cold_memory_bytes);
  return tables;
}

bool IsOrderedByPartition(const v1::TableConfig& table) {
  const v1::SparseTableConfig& sparse = table.sparse();
  return CountsSteps(table.optimizer()) || sparse.has_admission() ||
         (sparse.has_extended_optimizer() &&
          CountsSteps(sparse.extended_optimizer()));
}

}  // namespace oarlock
