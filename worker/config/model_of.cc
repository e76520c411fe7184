#include "worker/config/model_of.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "data/data_options.h"
#include "models/clipped_model.h"
#include "worker/config/data_options_of.h"

namespace oarlock::worker {
namespace {

constexpr size_t kSizeMax = 65536;

// Models and data do not know each other, but what can be read can be trained.
static_assert(data::DataOptions::kMaxSlots <= models::ModelOptions::kMaxSlots);

bool IsLibsvm(const v1::JobConfig& config) {
  return DataFormatOf(config) == data::DataOptions::Format::kLibsvm;
}

bool IsParquet(const v1::JobConfig& config) {
  return DataFormatOf(config) == data::DataOptions::Format::kColumns;
}

bool ParseSize(absl::string_view text, size_t* size) {
  return absl::SimpleAtoi(text, size) && *size >= 1 && *size <= kSizeMax;
}

// "400,400".
absl::StatusOr<std::vector<size_t>> Sizes(absl::string_view flag,
                                          absl::string_view text) {
  std::vector<size_t> sizes;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    size_t size = 0;
    if (!ParseSize(part, &size)) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " has '", part, "'; legal are sizes of 1 to ",
                       kSizeMax, "; write for example 128,64"));
    }
    sizes.push_back(size);
  }
  return sizes;
}

// "0:4,7:16".
absl::StatusOr<std::map<int, size_t>> SlotSizes(absl::string_view text) {
  std::map<int, size_t> sizes;
  if (text.empty()) return sizes;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    int slot = 0;
    size_t size = 0;
    if (!absl::SimpleAtoi(parts.first, &slot) || slot < 0 ||
        !ParseSize(parts.second, &size) || !sizes.emplace(slot, size).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--slot_sizes has '", part,
                       "'; legal is SLOT:SIZE, each slot once, "
                       "a size of 1 to ",
                       kSizeMax, "; write for example 0:4,7:16"));
    }
  }
  return sizes;
}

// What the features say of the model: how their rows are pooled, and how large
// they are.
absl::Status TakeFeatures(const v1::JobConfig& config,
                          models::ModelOptions* options) {
  OARLOCK_ASSIGN_OR_RETURN(const data::FeatureList features,
                           FeaturesOf(config));
  options->several_keys_per_slot = false;
  options->mean_pooling = false;
  std::vector<size_t> sizes;
  for (const data::FeatureList::Slot& slot : features.slots()) {
    if (slot.is_sequence) {
      options->several_keys_per_slot = true;
      // Where they differ, keys have weights.
      options->mean_pooling = !features.has_key_weights() &&
                              slot.pooling == v1::SequenceFeature::MEAN;
    }
    sizes.push_back(slot.dim == 0 ? options->embedding_size : slot.dim);
  }
  options->embedding_size = sizes[0];
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i] != sizes[0])
      options->slot_sizes[static_cast<int>(i)] = sizes[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<models::ModelOptions> ModelOptionsOf(
    const v1::JobConfig& config, const data::DataSchema& schema) {
  models::ModelOptions options;
  options.num_dense = schema.num_dense;
  options.num_slots = schema.num_slots;
  options.embedding_size = config.embedding_size();
  options.init_range = static_cast<float>(config.init_range());
  options.several_keys_per_slot =
      DataFormatOf(config) != data::DataOptions::Format::kCriteo;
  options.mean_pooling = config.pooling() == "mean";
  if (IsParquet(config)) {
    OARLOCK_RETURN_IF_ERROR(TakeFeatures(config, &options));
  }
  if (options.mean_pooling && IsLibsvm(config)) {
    return absl::InvalidArgumentError(
        "--pooling mean, and libsvm's features have values to be multiplied "
        "by; legal with --data_format libsvm is --pooling sum");
  }
  options.cross_layers = config.cross_layers();
  options.attention_layers = config.attention_layers();
  options.attention_heads = config.attention_heads();
  options.attention_size = config.attention_size();
  options.dropout = static_cast<float>(config.dropout());
  options.hidden_batch_norm = config.hidden_norm() == "batch";
  options.dense_norm =
      config.dense_norm() == "batch"  ? models::DenseNorm::kBatch
      : config.dense_norm() == "data" ? models::DenseNorm::kData
                                      : models::DenseNorm::kNone;
  OARLOCK_ASSIGN_OR_RETURN(options.cin_sizes,
                           Sizes("--cin_sizes", config.cin_sizes()));
  if (!config.slot_sizes().empty()) {
    OARLOCK_ASSIGN_OR_RETURN(options.slot_sizes,
                             SlotSizes(config.slot_sizes()));
  }
  if (!config.hidden_sizes().empty()) {
    OARLOCK_ASSIGN_OR_RETURN(options.hidden_sizes,
                             Sizes("--hidden_sizes", config.hidden_sizes()));
  }
  return options;
}

absl::StatusOr<std::unique_ptr<models::Model>> ModelOf(
    const v1::JobConfig& config, const data::DataSchema& schema,
    const std::string& math_backend) {
  if (IsLibsvm(config) && absl::StartsWith(math_backend, "cuda")) {
    return absl::InvalidArgumentError(
        "a GPU computes without the values of libsvm's features; use --device "
        "cpu");
  }
  OARLOCK_ASSIGN_OR_RETURN(models::ModelOptions options,
                           ModelOptionsOf(config, schema));
  options.math_backend = math_backend;
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<models::Model> model,
                           models::NewModel(config.model(), options));
  return models::WithClipping(std::move(model),
                              {static_cast<float>(config.clip_value()),
                               static_cast<float>(config.clip_norm())});
}

}  // namespace oarlock::worker
