#include "nn/cuda/rule_runner.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

#include "base/check.h"

namespace oarlock::nn::cuda {
namespace {

// The blocks that one launch updates, in the order of the vector.
struct BlockList {
  void Add(const RuleBlock& block) {
    OARLOCK_CHECK(block.num_tiles <= std::numeric_limits<uint32_t>::max());
    const uint32_t number = static_cast<uint32_t>(blocks.size());
    blocks.push_back(block);
    blocks.back().first_tile = tiles.size();
    for (size_t i = 0; i < block.num_tiles; ++i) {
      tiles.push_back({number, static_cast<uint32_t>(i)});
    }
  }

  std::vector<RuleBlock> blocks;
  std::vector<RuleTile> tiles;
};

// A BlockList on the device.
class Part {
 public:
  explicit Part(Device* device)
      : device_(device),
        blocks_(device),
        tiles_(device),
        tile_sums_(device),
        begun_(device) {}

  void Set(const BlockList& list) {
    args_.num_blocks = list.blocks.size();
    args_.num_tiles = list.tiles.size();
    args_.blocks = CopyIn(list.blocks, blocks_);
    args_.tiles = CopyIn(list.tiles, tiles_);
  }

  void Update(const optim::AnyRule& any, float* weights, float* state,
              const float* gradients) {
    args_.weights = weights;
    args_.state = state;
    args_.gradients = gradients;
    args_.options = any.options();
    args_.regularise = any.options().Regularise();
    std::visit([this](const auto& rule) { Run(rule); }, any.rule());
  }

 private:
  template <typename T>
  const T* CopyIn(const std::vector<T>& values, DeviceBuffer& buffer) {
    if (values.empty()) return nullptr;
    T* const to = buffer.Get<T>(values.size());
    device_->CopyIn(values.data(), values.size() * sizeof(T), to);
    return to;
  }

  template <typename Rule>
  void Run(const Rule& rule) {
    if constexpr (optim::kTakesMeans<Rule>) {
      args_.tile_sums = tile_sums_.Get<optim::RuleMeans>(args_.num_tiles);
      device_->Run(RuleTermsKernel<Rule>{args_, rule});
    }
    if constexpr (optim::kBegins<Rule>) {
      args_.begun = begun_.Get<typename Rule::Begun>(args_.num_blocks);
      device_->Run(RuleBeginKernel<Rule>{args_, rule});
    }
    device_->Run(RuleUpdateKernel<Rule>{args_, rule});
  }

  Device* const device_;
  DeviceBuffer blocks_;
  DeviceBuffer tiles_;
  DeviceBuffer tile_sums_;
  DeviceBuffer begun_;
  RuleArgs args_ = {};
};

class RuleRunner final : public optim::UpdateDevice {
 public:
  explicit RuleRunner(Device* device)
      : device_(device), decaying_(device), others_(device) {}
  ~RuleRunner() override {
    if (state_ != nullptr) device_->Free(state_);
  }

  void Begin(absl::Span<const optim::ParameterBlock> blocks,
             const optim::AnyRule& rule) override {
    BlockList decaying, others;  // the other blocks do not decay
    size_t begin = 0;
    for (const optim::ParameterBlock& block : blocks) {
      BlockList& list = block.decays ? decaying : others;
      list.Add({.size = block.size,
                .begin = begin,
                .state_begin = num_state_floats_,
                .first_tile = 0,
                .num_tiles = BlocksFor(block.size, kRuleTileFloats)});
      CheckLayout(rule, block.size);
      begin += block.size;
      num_state_floats_ += rule.StateSize(block.size);
    }
    decaying_.Set(decaying);
    others_.Set(others);
    if (num_state_floats_ == 0) return;
    state_ = static_cast<float*>(
        device_->Allocate(num_state_floats_ * sizeof(float)));
  }

  void Update(const optim::AnyRule& rule,
              const optim::AnyRule& rule_without_decay, float* parameters,
              const float* gradients) override {
    decaying_.Update(rule, parameters, state_, gradients);
    others_.Update(rule_without_decay, parameters, state_, gradients);
  }

  void ReadState(absl::Span<float> state) const override {
    OARLOCK_CHECK(state.size() == num_state_floats_);
    if (state.empty()) return;
    device_->CopyOutLater(state_, state.size() * sizeof(float), state.data());
    device_->Finish();
  }
  void WriteState(absl::Span<const float> state) override {
    OARLOCK_CHECK(state.size() == num_state_floats_);
    if (state.empty()) return;
    device_->CopyIn(state.data(), state.size() * sizeof(float), state_);
  }

 private:
  // Checks that the state has the layout that the kernels assume.
  static void CheckLayout(const optim::AnyRule& any, size_t n) {
    std::visit(
        [n](const auto& rule) {
          OARLOCK_CHECK(rule.StateSize(n) == rule.kOwn * n + rule.kShared);
        },
        any.rule());
  }

  Device* const device_;
  // Null where the rule has no state.
  float* state_ = nullptr;
  size_t num_state_floats_ = 0;
  Part decaying_;
  Part others_;
};

}  // namespace

std::unique_ptr<optim::UpdateDevice> NewRuleRunner(Device* device) {
  return std::make_unique<RuleRunner>(device);
}

}  // namespace oarlock::nn::cuda
