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
#include "checkpoint/manifest.h"
#include "data/data_options.h"
#include "flags/message_flags.h"
#include "storage/file_system.h"
#include "worker/config/data_options_of.h"

namespace oarlock {
namespace {

using google::protobuf::FieldDescriptor;

// Of groups Model and Data; they say nothing of model and format.
constexpr std::array<absl::string_view, 8> kLeftOut = {
    "train_files", "test_files", "pipe_command",   "bad_lines_max",
    "split",       "python",     "read_timeout_s", "reader_memory_mb"};

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

bool DefinesModel(const FieldDescriptor* field) {
  return field->options().GetExtension(v1::flag).defines_model();
}

bool IsSet(const v1::JobConfig& config, const FieldDescriptor* field) {
  const google::protobuf::Reflection& reflection = *config.GetReflection();
  return field->is_repeated() ? reflection.FieldSize(config, field) > 0
                              : reflection.HasField(config, field);
}

struct Difference {
  // "model", with its values in what was trained, and here.
  std::string flag;
  std::string trained;
  std::string here;
  // Not a default.
  bool given = false;
};

// In what says what parameters mean, as far as both say it.
std::vector<Difference> DifferencesInModel(
    const v1::JobDescription& description, const v1::JobConfig& config) {
  const v1::JobDescription own = DescribeJob(config);
  std::vector<Difference> differences;
  for (const v1::JobDescription::Flag& here : own.flags()) {
    if (!here.defines_model()) continue;
    for (const v1::JobDescription::Flag& trained : description.flags()) {
      if (NameOfToday(trained.name()) != here.name()) continue;
      if (trained.value() == here.value()) continue;
      differences.push_back(
          {here.name(), trained.value(), here.value(), here.given()});
    }
  }
  return differences;
}

// As a flag on a command line, for messages.
std::string Given(const std::string& flag, const std::string& value) {
  return absl::StrCat("--", flag, " ", value.empty() ? "''" : value);
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
    // Nothing was given, and nothing is the default. Who compares models must
    // know that.
    if (value.empty() && !DefinesModel(field)) continue;
    v1::JobDescription::Flag* flag = description.add_flags();
    flag->set_name(field->name());
    flag->set_value(value);
    flag->set_given(IsSet(config, field));
    flag->set_defines_model(DefinesModel(field));
  }
  return description;
}

absl::Status CheckSameModel(const v1::JobDescription& description,
                            const std::string& origin,
                            const v1::JobConfig& config) {
  const std::vector<Difference> differences =
      DifferencesInModel(description, config);
  if (differences.empty()) return absl::OkStatus();
  const Difference& first = differences[0];
  return absl::InvalidArgumentError(absl::StrCat(
      origin, " was trained with ", Given(first.flag, first.trained),
      ", and this job has ", Given(first.flag, first.here),
      first.given ? "" : ", the default",
      ": its parameters would mean something else; give ",
      Given(first.flag, first.trained),
      ", or begin another job, in another --checkpoint_dir"));
}

std::vector<std::string> Contradictions(const v1::JobDescription& description,
                                        const std::string& origin,
                                        const v1::JobConfig& config) {
  std::vector<std::string> sentences;
  for (const Difference& difference : DifferencesInModel(description, config)) {
    if (!difference.given) continue;
    sentences.push_back(absl::StrCat(
        origin, " was trained with ",
        Given(difference.flag, difference.trained), "; ",
        Given(difference.flag, difference.here),
        " counts, as it was given, and what was trained may mean something "
        "else to it: leave it out to go on with what was trained"));
  }
  return sentences;
}

absl::StatusOr<std::vector<std::string>> GoOnWithModel(v1::JobConfig* config) {
  std::vector<std::string> warnings;
  const std::string& path =
      config->resume() ? config->checkpoint_dir() : config->load();
  if (path.empty()) return warnings;
  const absl::StatusOr<checkpoint::LoadedCheckpoint> trained =
      checkpoint::LoadCheckpoint(storage::FileSystem::Real(), path);
  if (!trained.ok()) return warnings;
  const v1::JobDescription& description = trained->manifest.description();
  if (config->resume()) {
    OARLOCK_RETURN_IF_ERROR(
        CheckSameModel(description, trained->folder, *config));
    return warnings;
  }
  warnings = Contradictions(description, trained->folder, *config);
  v1::JobDescription taken;
  for (const v1::JobDescription::Flag& flag : description.flags()) {
    for (const FieldDescriptor* field : DescribingFields()) {
      if (field->name() != NameOfToday(flag.name())) continue;
      // What a command writes is no more what files had.
      if (field->name() == "data_format" && config->has_pipe_command())
        continue;
      if (DefinesModel(field)) *taken.add_flags() = flag;
    }
  }
  OARLOCK_RETURN_IF_ERROR(TakeDescription(taken, config));
  return warnings;
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
    if (IsSet(given, *field) || flag.value().empty()) continue;
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
