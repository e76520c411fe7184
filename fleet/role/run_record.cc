#include "fleet/role/run_record.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/str_cat.h"
#include "base/process/build_commit.h"
#include "base/process/version.h"
#include "flags/message_flags.h"
#include "fleet/role/input_digest.h"

namespace oarlock {

void RecordRun(const v1::JobConfig& config,
               const std::vector<std::string>& train_files,
               const std::vector<std::string>& test_files,
               worker::TrainingSummary* summary) {
  summary->version = absl::StrCat(kOarlockVersion, " (", BuildCommit(), ")");
  for (const google::protobuf::FieldDescriptor* flag :
       flags::FlagFields(v1::JobConfig::descriptor())) {
    summary->flags.emplace_back(flag->name(), flags::FlagValue(config, flag));
  }
  summary->train_files_digest = InputDigest(train_files);
  summary->test_files_digest = InputDigest(test_files);
}

}  // namespace oarlock
