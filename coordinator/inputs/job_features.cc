#include "coordinator/inputs/job_features.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"

namespace oarlock::coordinator {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr uint32_t kMaxNumber = 65534;

v1::Feature WithoutNumber(v1::Feature feature) {
  if (feature.has_sparse()) feature.mutable_sparse()->clear_number();
  if (feature.has_sequence()) feature.mutable_sequence()->clear_number();
  return feature;
}

uint32_t NumberOf(const v1::Feature& feature) {
  return feature.has_sequence() ? feature.sequence().number()
                                : feature.sparse().number();
}

void SetNumber(uint32_t number, v1::Feature* feature) {
  if (feature->has_sparse()) feature->mutable_sparse()->set_number(number);
  if (feature->has_sequence()) feature->mutable_sequence()->set_number(number);
}

bool HasRows(const v1::Feature& feature) {
  return feature.has_sparse() || feature.has_sequence();
}

const std::string& SharesOf(const v1::Feature& feature) {
  return feature.has_sequence() ? feature.sequence().shares()
                                : feature.sparse().shares();
}

// Whether the rows of the one are those of the other.
bool HaveSameRows(const v1::Feature& a, const v1::Feature& b) {
  if (!HasRows(a) || !HasRows(b)) return false;
  const auto type = [](const v1::Feature& feature) {
    return feature.has_sequence() ? feature.sequence().type()
                                  : feature.sparse().type();
  };
  const auto dim = [](const v1::Feature& feature) {
    return feature.has_sequence() ? feature.sequence().dim()
                                  : feature.sparse().dim();
  };
  return type(a) == type(b) && dim(a) == dim(b) && SharesOf(a) == SharesOf(b);
}

std::string Written(const v1::Feature& feature) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(
      WithoutNumber(feature), &json, options);
  return printed.ok() ? json : feature.name();
}

absl::Status CheckSame(const v1::FeatureList& before,
                       const v1::FeatureList& now) {
  constexpr char kAdvice[] =
      "; give the list of before, or begin a job with --load";
  std::map<std::string, const v1::Feature*> features;
  for (const v1::Feature& feature : before.features()) {
    features[feature.name()] = &feature;
  }
  for (const v1::Feature& feature : now.features()) {
    const auto found = features.find(feature.name());
    if (found == features.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the job goes on without feature '", feature.name(),
                       "', and --features has ", Written(feature), kAdvice));
    }
    const v1::Feature was = WithoutNumber(*found->second);
    if (!MessageDifferencer::Equals(was, WithoutNumber(feature))) {
      return absl::FailedPreconditionError(
          absl::StrCat("the job goes on with feature ", Written(was),
                       ", and --features has ", Written(feature), kAdvice));
    }
    features.erase(found);
  }
  if (features.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the job goes on with feature ", Written(*features.begin()->second),
      ", and --features does not have it", kAdvice));
}

}  // namespace

absl::StatusOr<v1::FeatureList> JobFeatures::Number(
    const v1::FeatureList& list) const {
  const bool is_sorted =
      std::is_sorted(list.features().begin(), list.features().end(),
                     [](const v1::Feature& a, const v1::Feature& b) {
                       return a.name() < b.name();
                     });
  if (!is_sorted) {
    return absl::InvalidArgumentError(
        "the features do not stand in the order of their names");
  }
  if (features_.has_value()) {
    if (const absl::Status same = CheckSame(*features_, list); !same.ok()) {
      return same;
    }
    return *features_;
  }
  std::map<std::string, const v1::Feature*> loaded;
  for (const v1::Feature& feature : loaded_.features()) {
    loaded[feature.name()] = &feature;
  }
  v1::FeatureList numbered = list;
  std::map<std::string, uint32_t> numbers;
  uint32_t largest = largest_number_;
  for (v1::Feature& feature : *numbered.mutable_features()) {
    if (!HasRows(feature) || !SharesOf(feature).empty()) continue;
    const auto before = loaded.find(feature.name());
    const uint32_t number =
        before != loaded.end() && HaveSameRows(*before->second, feature)
            ? NumberOf(*before->second)
            : ++largest;
    if (number > kMaxNumber) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature '", feature.name(), "' would be number ", number,
          " of those that the job and the ones before it ever had; legal are ",
          kMaxNumber, "; begin without --load"));
    }
    SetNumber(number, &feature);
    numbers[feature.name()] = number;
  }
  for (v1::Feature& feature : *numbered.mutable_features()) {
    if (!HasRows(feature) || SharesOf(feature).empty()) continue;
    SetNumber(numbers[SharesOf(feature)], &feature);
  }
  return numbered;
}

void JobFeatures::Set(const v1::FeatureList& numbered) {
  for (const v1::Feature& feature : numbered.features()) {
    if (!HasRows(feature)) continue;
    largest_number_ = std::max(largest_number_, NumberOf(feature));
  }
  features_ = numbered;
}

void JobFeatures::Restore(const v1::JobDescription& description) {
  if (!description.has_features()) return;
  Set(description.features());
  largest_number_ =
      std::max(largest_number_, description.largest_feature_number());
}

void JobFeatures::BeginWith(const v1::JobDescription& description) {
  loaded_ = description.features();
  largest_number_ = description.largest_feature_number();
}

void JobFeatures::Describe(v1::JobDescription* description) const {
  description->clear_features();
  if (features_.has_value()) *description->mutable_features() = *features_;
  description->set_largest_feature_number(largest_number_);
}

void JobFeatures::Save(v1::SavedFeatures* state) const {
  if (features_.has_value()) *state->mutable_features() = *features_;
  *state->mutable_loaded() = loaded_;
  state->set_largest_number(largest_number_);
}

void JobFeatures::Load(const v1::SavedFeatures& state) {
  features_.reset();
  if (state.has_features()) features_ = state.features();
  loaded_ = state.loaded();
  largest_number_ = state.largest_number();
}

}  // namespace oarlock::coordinator
