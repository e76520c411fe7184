#include "worker/flag_use.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace oarlock {
namespace {

using google::protobuf::FieldDescriptor;

// `flag` has an effect only where the flag `by`, a string, has one of `values`.
struct FlagUse {
  const char* flag;
  const char* by;
  std::vector<std::string> values;
};

const std::vector<FlagUse>& FlagUses() {
  static const std::vector<FlagUse>& uses = *new std::vector<FlagUse>{
      {"staleness_bound", "mode", {"ssp"}},
      {"dense_quorum", "mode", {"async", "half_async", "ssp"}},
      // Where another mode says how old rows are.
      {"row_cache_rows", "mode", {"async", "half_async"}},
      {"hidden_sizes",
       "model",
       {"wide_deep", "deepfm", "dcn", "dcn_v2", "xdeepfm", "dlrm", "ctr_dnn",
        "autoint"}},
      {"schedule_steps",
       "learning_rate_schedule",
       {"exponential", "polynomial", "cosine", "step"}},
      {"schedule_decay_rate",
       "learning_rate_schedule",
       {"exponential", "step"}},
      {"schedule_end_factor",
       "learning_rate_schedule",
       {"polynomial", "cosine"}},
      {"schedule_power", "learning_rate_schedule", {"polynomial"}},
      {"schedule_pieces", "learning_rate_schedule", {"piecewise"}},
  };
  return uses;
}

const FieldDescriptor& FieldOf(const char* flag) {
  const FieldDescriptor* const field =
      v1::JobConfig::descriptor()->FindFieldByName(flag);
  OARLOCK_CHECK(field != nullptr);
  return *field;
}

}  // namespace

absl::Status CheckFlagUse(const v1::JobConfig& config) {
  const google::protobuf::Reflection& reflection = *config.GetReflection();
  for (const FlagUse& use : FlagUses()) {
    if (!reflection.HasField(config, &FieldOf(use.flag))) continue;
    const std::string value =
        reflection.GetString(config, &FieldOf(use.by));
    if (std::find(use.values.begin(), use.values.end(), value) !=
        use.values.end()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--", use.flag, " is set, but --", use.by, " is ", value,
        "; legal is with --", use.by, " ", absl::StrJoin(use.values, ", "),
        "; leave --", use.flag, " out, or change --", use.by));
  }
  if (config.has_row_cache_steps() && config.row_cache_rows() == 0) {
    return absl::InvalidArgumentError(
        "--row_cache_steps is set, but --row_cache_rows is 0; give "
        "--row_cache_rows as well");
  }
  if (config.dense_quorum() < 0 && config.dense_quorum() != -1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--dense_quorum is ", config.dense_quorum(), "; legal is 0 to 1, a "
        "share of the workers, or -1; leave it out, and it is chosen by the "
        "number of threads"));
  }
  return absl::OkStatus();
}

}  // namespace oarlock
