#include "optim/dense_optimizer.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::optim {
namespace {

constexpr absl::string_view kMagic = "OARLOPT1";

// The numbers between magic and floats.
struct Head {
  uint64_t rule = 0;
  uint64_t digest_of_sizes = 0;
  uint64_t steps = 0;
  uint64_t num_floats = 0;
};
static_assert(sizeof(Head) == 32);

constexpr size_t kHeadBytes = 8 + sizeof(Head);
constexpr size_t kDigestBytes = sizeof(uint64_t);

v1::OptimizerConfig WithoutDecay(v1::OptimizerConfig config) {
  config.clear_l1();
  config.clear_l2();
  if (config.has_lars()) config.mutable_lars()->set_weight_decay(0);
  if (config.has_adamw()) config.mutable_adamw()->set_weight_decay(0);
  return config;
}

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("state of the optimizer: ", what,
                   "; legal is what SaveState gave; use another checkpoint"));
}

}  // namespace

absl::StatusOr<DenseOptimizer> DenseOptimizer::Create(
    const v1::OptimizerConfig& config, absl::Span<const ParameterBlock> blocks,
    std::unique_ptr<UpdateDevice> device) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].size >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("block ", i,
                     " of the parameters has 0 floats; legal is "
                     "at least 1; leave it out"));
  }
  OARLOCK_ASSIGN_OR_RETURN(UpdateRule rule, UpdateRule::Create(config));
  OARLOCK_ASSIGN_OR_RETURN(UpdateRule rule_without_decay,
                           UpdateRule::Create(WithoutDecay(config)));
  return DenseOptimizer(config, std::move(rule), std::move(rule_without_decay),
                        blocks, std::move(device));
}

DenseOptimizer::DenseOptimizer(const v1::OptimizerConfig& config,
                               UpdateRule rule, UpdateRule rule_without_decay,
                               absl::Span<const ParameterBlock> blocks,
                               std::unique_ptr<UpdateDevice> device)
    : config_(config),
      rule_(std::move(rule)),
      rule_without_decay_(std::move(rule_without_decay)),
      blocks_(blocks.begin(), blocks.end()),
      device_(std::move(device)) {
  for (const ParameterBlock& block : blocks_) {
    size_ += block.size;
    state_size_ += rule_.StateSize(block.size);
    OARLOCK_CHECK(rule_.StateSize(block.size) ==
                  rule_without_decay_.StateSize(block.size));
  }
  std::vector<float> initial(state_size_);
  float* state = initial.data();
  for (const ParameterBlock& block : blocks_) {
    rule_.InitState(state, block.size);
    state += rule_.StateSize(block.size);
  }
  if (device_ == nullptr) {
    state_ = std::move(initial);
    return;
  }
  device_->Begin(blocks_, rule_.ForStep(1));
  device_->WriteState(initial);
}

float DenseOptimizer::learning_rate() const {
  return config_.learning_rate() *
         rule_.RateFactor(std::max<uint64_t>(steps_, 1));
}

void DenseOptimizer::Step(float* parameters, const float* gradients,
                          uint32_t num_steps) {
  OARLOCK_CHECK(num_steps >= 1);
  steps_ += num_steps;
  if (device_ != nullptr) {
    device_->Update(rule_.ForStep(steps_), rule_without_decay_.ForStep(steps_),
                    parameters, gradients);
    return;
  }
  float* state = state_.data();
  for (const ParameterBlock& block : blocks_) {
    const UpdateRule& rule = block.decays ? rule_ : rule_without_decay_;
    rule.Apply(steps_, parameters, state, gradients, block.size);
    parameters += block.size;
    gradients += block.size;
    state += rule_.StateSize(block.size);
  }
}

uint64_t DenseOptimizer::DigestOfSizes() const {
  std::vector<uint64_t> sizes;
  for (const ParameterBlock& block : blocks_) sizes.push_back(block.size);
  return XXH3_64bits(sizes.data(), sizes.size() * sizeof(uint64_t));
}

std::string DenseOptimizer::SaveState() const {
  const Head head = {.rule = static_cast<uint64_t>(config_.rule_case()),
                     .digest_of_sizes = DigestOfSizes(),
                     .steps = steps_,
                     .num_floats = state_size_};
  std::vector<float> read(device_ == nullptr ? 0 : state_size_);
  if (device_ != nullptr) device_->ReadState(absl::MakeSpan(read));
  const std::vector<float>& state = device_ == nullptr ? state_ : read;
  const size_t state_bytes = state.size() * sizeof(float);
  std::string bytes(kMagic.data(), kMagic.size());
  bytes.reserve(kHeadBytes + state_bytes + kDigestBytes);
  bytes.append(reinterpret_cast<const char*>(&head), sizeof(head));
  bytes.append(reinterpret_cast<const char*>(state.data()), state_bytes);
  const uint64_t digest = XXH3_64bits(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&digest), sizeof(digest));
  return bytes;
}

absl::Status DenseOptimizer::RestoreState(absl::string_view bytes) {
  if (bytes.size() < kHeadBytes + kDigestBytes ||
      bytes.substr(0, kMagic.size()) != kMagic) {
    return Damaged(
        absl::StrCat("these ", bytes.size(), " bytes do not begin as one"));
  }
  const size_t rest = bytes.size() - kDigestBytes;
  uint64_t digest;
  std::memcpy(&digest, bytes.data() + rest, sizeof(digest));
  if (const uint64_t seen = XXH3_64bits(bytes.data(), rest); seen != digest) {
    return Damaged(absl::StrFormat("its digest is %016x, and it says %016x",
                                   seen, digest));
  }
  Head head;
  std::memcpy(&head, bytes.data() + kMagic.size(), sizeof(head));
  if (head.rule != static_cast<uint64_t>(config_.rule_case()) ||
      head.digest_of_sizes != DigestOfSizes()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "state of the optimizer: it is that of rule %d and %d floats; legal is "
        "rule %d of OptimizerConfig and %d floats in the same parameters; "
        "begin with the optimizer and the model of the checkpoint",
        head.rule, head.num_floats, static_cast<int>(config_.rule_case()),
        state_size_));
  }
  const size_t state_bytes = rest - kHeadBytes;
  if (head.num_floats != state_size_ ||
      state_bytes != state_size_ * sizeof(float)) {
    return Damaged(absl::StrFormat("it has %d bytes and says %d floats",
                                   state_bytes, head.num_floats));
  }
  std::vector<float> state(state_size_);
  const char* const from = bytes.data() + kHeadBytes;
  std::copy(from, from + state_bytes, reinterpret_cast<char*>(state.data()));
  if (device_ == nullptr) {
    state_ = std::move(state);
  } else {
    device_->WriteState(state);
  }
  steps_ = head.steps;
  return absl::OkStatus();
}

}  // namespace oarlock::optim
