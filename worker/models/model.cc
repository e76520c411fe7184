#include "worker/models/model.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/models/ctr_dnn.h"
#include "worker/models/deepfm.h"
#include "worker/models/lr.h"

namespace oarlock {
namespace {

// Far beyond any use; so that sizes cannot overflow.
constexpr size_t kMaxDense = 1 << 20;
constexpr size_t kMaxSlots = 4096;
constexpr size_t kMaxEmbeddingSize = 4096;
constexpr size_t kMaxHiddenSize = 1 << 16;
constexpr size_t kMaxHiddenLayers = 64;

absl::Status InRange(const char* option, size_t value, size_t min, size_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model option ", option, " is ", value, "; legal is ", min,
                   " to ", max, ": correct it"));
}

absl::Status Validate(const ModelOptions& options) {
  OARLOCK_RETURN_IF_ERROR(
      InRange("num_dense", options.num_dense, 0, kMaxDense));
  OARLOCK_RETURN_IF_ERROR(
      InRange("num_slots", options.num_slots, 1, kMaxSlots));
  OARLOCK_RETURN_IF_ERROR(
      InRange("embedding_size", options.embedding_size, 1, kMaxEmbeddingSize));
  const std::vector<size_t> hidden_sizes =
      options.hidden_sizes.value_or(std::vector<size_t>{});
  OARLOCK_RETURN_IF_ERROR(InRange("hidden_sizes' length", hidden_sizes.size(),
                                  0, kMaxHiddenLayers));
  for (size_t size : hidden_sizes) {
    OARLOCK_RETURN_IF_ERROR(
        InRange("hidden_sizes' element", size, 1, kMaxHiddenSize));
  }
  if (!std::isfinite(options.init_range) || options.init_range < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model option init_range is ", options.init_range,
                     "; legal is 0 or more: correct it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NewModel(const std::string& name,
                                                const ModelOptions& options) {
  OARLOCK_RETURN_IF_ERROR(Validate(options));
  if (name == "lr") return NewLrModel(options);
  if (name == "ctr_dnn") return NewCtrDnnModel(options);
  if (name == "deepfm") return NewDeepFmModel(options);
  return absl::InvalidArgumentError(absl::StrCat(
      "model is \"", name,
      "\"; legal are \"lr\", \"ctr_dnn\" and \"deepfm\": choose one"));
}

}  // namespace oarlock
