#include "fleet/role/job_description.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "data/data_options.h"
#include "flags/message_flags.h"
#include "worker/config/data_options_of.h"

namespace oarlock {
namespace {

using google::protobuf::FieldDescriptor;

// Of groups Model and Data; they say nothing of model and format.
constexpr std::array<absl::string_view, 5> kLeftOut = {
    "train_files", "test_files", "pipe_command", "bad_lines_max", "split"};

// Of them those that only multi_slot text has; lines of other formats have one
// shape.
constexpr std::array<absl::string_view, 2> kMultiSlotOnly = {"dense_dim",
                                                             "num_slots"};

// Flags whose names have changed: descriptions on disk have the old ones.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 1>
    kRenamed = {{{"concatenated_passes", "repeats_per_epoch"}}};

absl::string_view NameOfToday(absl::string_view name) {
  for (const auto& [before, now] : kRenamed) {
    if (name == before) return now;
  }
  return name;
}

bool Has(absl::Span<const absl::string_view> names,
         const FieldDescriptor* field) {
  return std::find(names.begin(), names.end(), field->name()) != names.end();
}

std::vector<const FieldDescriptor*> DescribingFields() {
  std::vector<const FieldDescriptor*> fields;
  for (const FieldDescriptor* field :
       flags::FlagFields(v1::JobConfig::descriptor())) {
    const std::string group = flags::FlagGroup(field);
    if (group != "Model" && group != "Data") continue;
    if (!Has(kLeftOut, field)) fields.push_back(field);
  }
  return fields;
}

bool IsSet(const v1::JobConfig& config, const FieldDescriptor* field) {
  const google::protobuf::Reflection& reflection = *config.GetReflection();
  return field->is_repeated() ? reflection.FieldSize(config, field) > 0
                              : reflection.HasField(config, field);
}

}  // namespace

std::vector<std::string> DescribingFlags() {
  std::vector<std::string> names;
  for (const FieldDescriptor* field : DescribingFields()) {
    names.push_back(field->name());
  }
  return names;
}

v1::JobDescription DescribeJob(const v1::JobConfig& config) {
  v1::JobConfig said = config;
  const data::DataOptions::Format format = worker::DataFormatOf(config);
  said.set_data_format(std::string(data::NameOf(format)));
  v1::JobDescription description;
  for (const FieldDescriptor* field : DescribingFields()) {
    if (format != data::DataOptions::Format::kMultiSlot &&
        Has(kMultiSlotOnly, field)) {
      continue;
    }
    const std::string value = flags::FlagValue(said, field);
    // Nothing was given, and nothing is the default.
    if (value.empty()) continue;
    v1::JobDescription::Flag* flag = description.add_flags();
    flag->set_name(field->name());
    flag->set_value(value);
  }
  return description;
}

v1::JobDescription SharedSettings(const v1::JobConfig& config) {
  v1::JobDescription settings;
  for (const FieldDescriptor* field :
       flags::FlagFields(v1::JobConfig::descriptor())) {
    if (!field->options().GetExtension(v1::flag).shared()) continue;
    v1::JobDescription::Flag* const flag = settings.add_flags();
    flag->set_name(field->name());
    flag->set_value(flags::FlagValue(config, field));
  }
  return settings;
}

absl::Status TakeDescription(const v1::JobDescription& description,
                             v1::JobConfig* config) {
  const std::vector<const FieldDescriptor*> fields = DescribingFields();
  const v1::JobConfig given = *config;
  for (const v1::JobDescription::Flag& flag : description.flags()) {
    const auto field = std::find_if(
        fields.begin(), fields.end(), [&](const FieldDescriptor* f) {
          return f->name() == NameOfToday(flag.name());
        });
    if (field == fields.end()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the job was trained with --", flag.name(), " ", flag.value(),
          ", a flag that this program does not know; use the release that "
          "trained it"));
    }
    if (IsSet(given, *field)) continue;
    absl::Status status = flags::SetFlag(*field, {flag.value()}, config);
    if (status.ok()) status = flags::CheckFlag(*config, *field);
    if (!status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the job was trained with what is not legal here: ",
                       status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIsDescribed(const v1::JobDescription& description,
                              const v1::JobConfig& config,
                              const std::string& origin) {
  if (description.flags_size() > 0 || config.has_model()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      origin,
      " does not say what it trained; give the --model and the other "
      "flags that it was trained with"));
}

}  // namespace oarlock
