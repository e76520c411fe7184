// Kernels that update parameters by the rules of optim/, with the rules' own
// arithmetic. They are compiled without fused multiply-add (rule_kernels.cu),
// so they give the same bits as a CPU. Rules that use means over the weights
// are an exception: the means are summed here in another order, in double.
//
// One launch updates many parameters ("blocks"). Each block is cut into tiles:
//
//   RuleTermsKernel    means over each tile     rules that go by means
//   RuleBeginKernel    Begin of each block      rules that have one
//   RuleUpdateKernel   every weight             all rules

#ifndef OARLOCK_NN_CUDA_KERNELS_RULE_KERNELS_H_
#define OARLOCK_NN_CUDA_KERNELS_RULE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "nn/cuda/kernels/device_code.h"
#include "optim/adagrad_rules.h"
#include "optim/adam_rules.h"
#include "optim/ftrl_rule.h"
#include "optim/lars_rule.h"
#include "optim/paddle_rules.h"
#include "optim/rule_code.h"
#include "optim/sgd_rules.h"
#include "optim/weight_options.h"

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

// A parameter.
struct RuleBlock {
  size_t size;
  // Where its weights and its state begin in the vectors.
  size_t begin;
  size_t state_begin;
  // Its tiles among the tiles of the launch.
  size_t first_tile;
  size_t num_tiles;
};

// Weights [number * kRuleTileFloats, (number + 1) * kRuleTileFloats) of a
// block, or fewer at the end of the block.
struct RuleTile {
  uint32_t block;
  uint32_t number;
};
inline constexpr size_t kRuleTileFloats = 1024;

// The common arguments of the kernels of an update.
struct RuleArgs {
  size_t num_blocks;
  size_t num_tiles;
  const RuleBlock* blocks;
  const RuleTile* tiles;
  float* weights;
  float* state;
  const float* gradients;
  // Whether options add something to gradients.
  bool regularise;
  optim::WeightOptions options;
  // For rules that use means: the sums of each tile's terms.
  optim::RuleMeans* tile_sums;
  // For rules with Begin: the result of Begin for each block, an array of
  // Begun.
  void* begun;

  OARLOCK_DEVICE float Gradient(size_t i) const {
    return regularise ? options.Regularised(weights[i], gradients[i])
                      : gradients[i];
  }
  template <typename Rule>
  OARLOCK_DEVICE float* SharedOf(const RuleBlock& block) const {
    return state + block.state_begin + Rule::kOwn * block.size;
  }
};

// The weights [begin, end) of a tile, numbered within their block.
struct RuleRange {
  size_t begin;
  size_t end;
};
OARLOCK_DEVICE inline RuleRange RangeOf(const RuleTile& tile,
                                        const RuleBlock& block) {
  const size_t begin = size_t{tile.number} * kRuleTileFloats;
  const size_t end = begin + kRuleTileFloats;
  return {begin, end < block.size ? end : block.size};
}

template <typename Rule>
struct RuleTermsKernel {
  static constexpr unsigned kThreads = 256;
  RuleArgs args;
  Rule rule;

  size_t blocks() const { return args.num_tiles; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED optim::RuleMeans sums[kThreads];
    const RuleTile tile = args.tiles[block.index()];
    const RuleBlock of = args.blocks[tile.block];
    const RuleRange range = RangeOf(tile, of);
    const float* const shared = args.SharedOf<Rule>(of);
    const auto term = [&](size_t i) {
      const size_t at = of.begin + i;
      return rule.Terms(args.weights[at], args.Gradient(at), shared);
    };
    SumOfTerms<kThreads>(block, range.begin, range.end, term, sums);
    block.ForThreads([&](unsigned t) {
      if (t == 0) args.tile_sums[block.index()] = sums[0];
    });
  }
};

template <typename Rule>
struct RuleBeginKernel {
  static constexpr unsigned kThreads = 128;
  RuleArgs args;
  Rule rule;

  size_t blocks() const { return args.num_blocks; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    OARLOCK_SHARED optim::RuleMeans sums[kThreads];
    const RuleBlock of = args.blocks[block.index()];
    if constexpr (optim::kTakesMeans<Rule>) {
      const auto tile_sum = [&](size_t i) {
        return args.tile_sums[of.first_tile + i];
      };
      SumOfTerms<kThreads>(block, 0, of.num_tiles, tile_sum, sums);
    }
    block.ForThreads([&](unsigned t) {
      if (t > 0) return;
      float* const shared = args.SharedOf<Rule>(of);
      auto* const begun = static_cast<typename Rule::Begun*>(args.begun);
      if constexpr (optim::kTakesMeans<Rule>) {
        const double n = static_cast<double>(of.size);
        begun[block.index()] = rule.Begin(
            {sums[0].first / n, sums[0].second / n}, of.size, shared);
      } else {
        begun[block.index()] = rule.Begin(shared);
      }
    });
  }
};

template <typename Rule>
struct RuleUpdateKernel {
  static constexpr unsigned kThreads = 256;
  RuleArgs args;
  Rule rule;

  size_t blocks() const { return args.num_tiles; }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    const RuleTile tile = args.tiles[block.index()];
    const RuleBlock of = args.blocks[tile.block];
    const RuleRange range = RangeOf(tile, of);
    block.ForThreads([&](unsigned t) {
      for (size_t i = range.begin + t; i < range.end; i += kThreads) {
        const size_t at = of.begin + i;
        const float g = args.Gradient(at);
        float& w = args.weights[at];
        float* const own = args.state + of.state_begin + i;
        if constexpr (Rule::kOwn == 0) {
          Update(tile.block, g, w);
        } else if constexpr (Rule::kOwn == 1) {
          Update(tile.block, g, w, own[0]);
        } else {
          static_assert(Rule::kOwn == 2);
          Update(tile.block, g, w, own[0], own[of.size]);
        }
        w = args.options.Bounded(w);
      }
    });
  }

 private:
  template <typename... Own>
  OARLOCK_DEVICE void Update(size_t number, float g, float& w,
                             Own&... own) const {
    if constexpr (optim::kBegins<Rule>) {
      const auto* const begun =
          static_cast<const typename Rule::Begun*>(args.begun);
      rule.Update(begun[number], g, w, own...);
    } else {
      rule.Update(g, w, own...);
    }
  }
};

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

// Calls each(name, type) for every kernel.
// clang-format off
#define OARLOCK_CUDA_RULE_KERNELS(each)                                     \
  each(kSgd, RuleUpdateKernel<optim::SgdRule>)                                     \
  each(kMomentum, RuleUpdateKernel<optim::MomentumRule>)                           \
  each(kAdagrad, RuleUpdateKernel<optim::AdagradRule>)                             \
  each(kSharedAdagradTerms, RuleTermsKernel<optim::SharedAdagradRule>)             \
  each(kSharedAdagradBegin, RuleBeginKernel<optim::SharedAdagradRule>)             \
  each(kSharedAdagrad, RuleUpdateKernel<optim::SharedAdagradRule>)                 \
  each(kAdamBegin, RuleBeginKernel<optim::AdamRule>)                               \
  each(kAdam, RuleUpdateKernel<optim::AdamRule>)                                   \
  each(kLazyAdam, RuleUpdateKernel<optim::LazyAdamRule>)                           \
  each(kSharedAdamTerms, RuleTermsKernel<optim::SharedAdamRule>)                   \
  each(kSharedAdamBegin, RuleBeginKernel<optim::SharedAdamRule>)                   \
  each(kSharedAdam, RuleUpdateKernel<optim::SharedAdamRule>)                       \
  each(kAdamwBegin, RuleBeginKernel<optim::AdamwRule>)                             \
  each(kAdamw, RuleUpdateKernel<optim::AdamwRule>)                                 \
  each(kFtrl, RuleUpdateKernel<optim::FtrlRule>)                                   \
  each(kPaddleAdagradTerms, RuleTermsKernel<optim::PaddleAdagradRule>)             \
  each(kPaddleAdagradBegin, RuleBeginKernel<optim::PaddleAdagradRule>)             \
  each(kPaddleAdagrad, RuleUpdateKernel<optim::PaddleAdagradRule>)                 \
  each(kPaddleStdAdagrad, RuleUpdateKernel<optim::PaddleStdAdagradRule>)           \
  each(kPaddleAdagradV2Terms, RuleTermsKernel<optim::PaddleAdagradV2Rule>)         \
  each(kPaddleAdagradV2Begin, RuleBeginKernel<optim::PaddleAdagradV2Rule>)         \
  each(kPaddleAdagradV2, RuleUpdateKernel<optim::PaddleAdagradV2Rule>)             \
  each(kPaddleAdamBegin, RuleBeginKernel<optim::PaddleAdamRule>)                   \
  each(kPaddleAdam, RuleUpdateKernel<optim::PaddleAdamRule>)                       \
  each(kPaddleSharedAdamTerms, RuleTermsKernel<optim::PaddleSharedAdamRule>)       \
  each(kPaddleSharedAdamBegin, RuleBeginKernel<optim::PaddleSharedAdamRule>)       \
  each(kPaddleSharedAdam, RuleUpdateKernel<optim::PaddleSharedAdamRule>)           \
  each(kLarsTerms, RuleTermsKernel<optim::LarsRule>)                               \
  each(kLarsBegin, RuleBeginKernel<optim::LarsRule>)                               \
  each(kLars, RuleUpdateKernel<optim::LarsRule>)
// clang-format on

#endif  // OARLOCK_NN_CUDA_KERNELS_RULE_KERNELS_H_
