#include "models/model.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/autoint.h"
#include "models/cross_networks.h"
#include "models/ctr_dnn.h"
#include "models/deepfm.h"
#include "models/dlrm.h"
#include "models/factorization_machines.h"
#include "models/lr.h"
#include "models/wide_deep.h"
#include "models/xdeepfm.h"

namespace oarlock::models {
namespace {

// Far larger than any use; with these limits sizes cannot overflow.
constexpr size_t kMaxDense = 1 << 20;
constexpr size_t kMaxEmbeddingSize = 4096;
constexpr size_t kMaxHiddenSize = 1 << 16;
constexpr size_t kMaxHiddenLayers = 64;
constexpr size_t kMaxLayers = 64;
constexpr size_t kMaxHeads = 64;

// Options that only some models use, as bits.
enum Reads : unsigned {
  kNothingMore = 0,
  kHidden = 1,
  kCross = 2,
  kCin = 4,
  kAttention = 8,
};

struct NamedModel {
  const char* name;
  absl::StatusOr<std::unique_ptr<Model>> (*create)(const ModelOptions&);
  unsigned reads;
};
constexpr NamedModel kModels[] = {
    {"lr", NewLrModel, kNothingMore},
    {"fm", NewFmModel, kNothingMore},
    {"ffm", NewFfmModel, kNothingMore},
    {"wide_deep", NewWideDeepModel, kHidden},
    {"deepfm", NewDeepFmModel, kHidden},
    {"dcn", NewDcnModel, kHidden | kCross},
    {"dcn_v2", NewDcnV2Model, kHidden | kCross},
    {"xdeepfm", NewXDeepFmModel, kHidden | kCin},
    {"dlrm", NewDlrmModel, kHidden},
    {"ctr_dnn", NewCtrDnnModel, kHidden},
    {"autoint", NewAutoIntModel, kHidden | kAttention},
};

// A flag that sets one of these options. embedding_size and init_range are not
// listed, though lr uses neither: its rows are one float that starts at 0. All
// other models use them, and scripts set them for any model that they train.
struct FlagThatIsRead {
  const char* flag;
  Reads as;
};
constexpr FlagThatIsRead kFlags[] = {
    {"hidden_sizes", kHidden},
    {"dropout", kHidden},
    {"hidden_norm", kHidden},
    {"cross_layers", kCross},
    {"cin_sizes", kCin},
    {"attention_layers", kAttention},
    {"attention_heads", kAttention},
    {"attention_size", kAttention},
};

absl::Status InRange(const char* option, size_t value, size_t min, size_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      option, " is ", value, "; legal is ", min, " to ", max, ": correct it"));
}

absl::Status ValidateShape(const ModelOptions& options) {
  OARLOCK_RETURN_IF_ERROR(
      InRange("--cross_layers", options.cross_layers, 1, kMaxLayers));
  OARLOCK_RETURN_IF_ERROR(
      InRange("--cin_sizes' length", options.cin_sizes.size(), 1, kMaxLayers));
  for (size_t size : options.cin_sizes) {
    OARLOCK_RETURN_IF_ERROR(
        InRange("--cin_sizes' element", size, 1, kMaxHiddenSize));
  }
  OARLOCK_RETURN_IF_ERROR(
      InRange("--attention_layers", options.attention_layers, 1, kMaxLayers));
  OARLOCK_RETURN_IF_ERROR(
      InRange("--attention_heads", options.attention_heads, 1, kMaxHeads));
  OARLOCK_RETURN_IF_ERROR(InRange("--attention_size", options.attention_size, 1,
                                  kMaxEmbeddingSize));
  for (const auto& [slot, size] : options.slot_sizes) {
    if (slot < 0 || static_cast<size_t>(slot) >= options.num_slots) {
      return absl::InvalidArgumentError(
          absl::StrCat("--slot_sizes has slot ", slot, "; legal is 0 to ",
                       options.num_slots - 1, ": correct it"));
    }
    OARLOCK_RETURN_IF_ERROR(
        InRange("--slot_sizes' size", size, 1, kMaxEmbeddingSize));
  }
  return absl::OkStatus();
}

absl::Status Validate(const ModelOptions& options) {
  OARLOCK_RETURN_IF_ERROR(
      InRange("the data's num_dense", options.num_dense, 0, kMaxDense));
  OARLOCK_RETURN_IF_ERROR(InRange("the data's num_slots", options.num_slots, 1,
                                  ModelOptions::kMaxSlots));
  OARLOCK_RETURN_IF_ERROR(InRange("--embedding_size", options.embedding_size, 1,
                                  kMaxEmbeddingSize));
  const std::vector<size_t> hidden_sizes =
      options.hidden_sizes.value_or(std::vector<size_t>{});
  OARLOCK_RETURN_IF_ERROR(InRange("--hidden_sizes' length", hidden_sizes.size(),
                                  0, kMaxHiddenLayers));
  for (size_t size : hidden_sizes) {
    OARLOCK_RETURN_IF_ERROR(
        InRange("--hidden_sizes' element", size, 1, kMaxHiddenSize));
  }
  if (!std::isfinite(options.init_range) || options.init_range < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--init_range is ", options.init_range,
                     "; legal is 0 or more: correct it"));
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dropout is ", options.dropout,
                     "; legal is 0 or more and less than 1: correct it"));
  }
  return ValidateShape(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NewModel(const std::string& name,
                                                const ModelOptions& options) {
  OARLOCK_RETURN_IF_ERROR(Validate(options));
  for (const NamedModel& model : kModels) {
    if (name == model.name) return model.create(options);
  }
  const std::string legal = absl::StrJoin(
      kModels, ", ", [](std::string* out, const NamedModel& model) {
        out->append(model.name);
      });
  return absl::InvalidArgumentError(absl::StrCat(
      "model is \"", name, "\"; legal are ", legal, ": choose one"));
}

const std::vector<ModelFlag>& ModelFlags() {
  static const std::vector<ModelFlag>& flags = *[] {
    auto* const all = new std::vector<ModelFlag>;
    for (const FlagThatIsRead& read : kFlags) {
      ModelFlag& flag = all->emplace_back();
      flag.flag = read.flag;
      for (const NamedModel& model : kModels) {
        if ((model.reads & read.as) != 0) flag.models.push_back(model.name);
      }
    }
    return all;
  }();
  return flags;
}

}  // namespace oarlock::models
