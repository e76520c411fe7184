#include "data/features/feature_list.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "data/data_options.h"

namespace oarlock::data {
namespace {

absl::Status Wrong(const v1::Feature& feature, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("feature '", feature.name(), "' ", what));
}

// The one feature of its kind.
absl::Status SetOnce(const v1::Feature& feature, const char* kind,
                     std::string* name) {
  if (!name->empty()) {
    return Wrong(feature, absl::StrCat("is a ", kind, ", and so is '", *name,
                                       "'; legal is one"));
  }
  *name = feature.name();
  return absl::OkStatus();
}

// What sparse features and sequences have in common.
template <typename Message>
FeatureList::Slot SlotOf(const v1::Feature& feature, const Message& message) {
  FeatureList::Slot slot;
  slot.name = feature.name();
  slot.type = message.type();
  slot.dim = message.dim();
  slot.rows_of = message.shares().empty() ? feature.name() : message.shares();
  slot.number = message.number();
  slot.missing_is_null = feature.missing_is_null();
  return slot;
}

absl::Status CheckSlot(const v1::Feature& feature,
                       const FeatureList::Slot& slot) {
  if (slot.dim > FeatureList::kMaxDim) {
    return Wrong(
        feature,
        absl::StrCat("has dim ", slot.dim, "; legal are 1 to ",
                     FeatureList::kMaxDim, ", and 0 for that of the job"));
  }
  if (slot.max_length > FeatureList::kMaxSequenceLength) {
    return Wrong(
        feature,
        absl::StrCat("has max_length ", slot.max_length, "; legal are 1 to ",
                     FeatureList::kMaxSequenceLength, ", and 0 for no limit"));
  }
  if (slot.number > FeatureKeys::kMaxNumber) {
    return Wrong(feature,
                 absl::StrCat("has number ", slot.number, "; legal are 1 to ",
                              FeatureKeys::kMaxNumber));
  }
  if (!v1::IdType_IsValid(slot.type) ||
      !v1::SequenceFeature::Pooling_IsValid(slot.pooling)) {
    return Wrong(feature, "has a type or pooling that this release lacks");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FeatureList> FeatureList::Parse(const std::string& json) {
  v1::FeatureList message;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(json, &message);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the list of features cannot be read: ", std::string(parsed.message()),
        "; legal is JSON of oarlock.v1.FeatureList: {\"features\": [{\"name\": "
        "\"click\", \"label\": {}}, {\"name\": \"user\", \"sparse\": {}}]}"));
  }
  return Create(message);
}

absl::StatusOr<FeatureList> FeatureList::Create(const v1::FeatureList& list) {
  FeatureList features;
  features.message_ = list;
  auto* const sorted = features.message_.mutable_features();
  std::sort(sorted->begin(), sorted->end(),
            [](const v1::Feature& a, const v1::Feature& b) {
              return a.name() < b.name();
            });
  const v1::Feature* before = nullptr;
  for (const v1::Feature& feature : *sorted) {
    if (before != nullptr && before->name() == feature.name()) {
      return Wrong(feature, "is there twice; each column is one feature");
    }
    before = &feature;
    OARLOCK_RETURN_IF_ERROR(features.Add(feature));
  }
  if (features.label_.empty()) {
    return absl::InvalidArgumentError(
        "the list of features has no label; one feature must be it");
  }
  const size_t num_slots = features.slots_.size();
  if (num_slots == 0 || num_slots > DataOptions::kMaxSlots ||
      features.dense_.size() > DataOptions::kMaxDense) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the list has ", num_slots, " sparse features and sequences and ",
        features.dense_.size(), " dense features; legal are 1 to ",
        DataOptions::kMaxSlots, " and 0 to ", DataOptions::kMaxDense));
  }
  OARLOCK_RETURN_IF_ERROR(features.ResolveShares());
  return features;
}

absl::Status FeatureList::Add(const v1::Feature& feature) {
  if (feature.name().empty() || feature.name().size() > kMaxNameBytes) {
    return Wrong(feature,
                 absl::StrCat("has a name of ", feature.name().size(),
                              " bytes; legal are 1 to ", kMaxNameBytes));
  }
  switch (feature.kind_case()) {
    case v1::Feature::kLabel:
      return SetOnce(feature, "label", &label_);
    case v1::Feature::kWeight:
      return SetOnce(feature, "weight", &weight_);
    case v1::Feature::kGroup:
      group_type_ = feature.group().type();
      return SetOnce(feature, "group", &group_);
    case v1::Feature::kDense: {
      const v1::DenseFeature& dense = feature.dense();
      if (!std::isfinite(dense.null())) {
        return Wrong(feature, absl::StrCat("counts null as ", dense.null(),
                                           "; legal are finite numbers"));
      }
      if (!v1::DenseFeature::Transform_IsValid(dense.transform())) {
        return Wrong(feature, "has a transform that this release lacks");
      }
      dense_.push_back({feature.name(), dense.transform(), dense.null(),
                        feature.missing_is_null()});
      return absl::OkStatus();
    }
    case v1::Feature::kSparse:
      slots_.push_back(SlotOf(feature, feature.sparse()));
      return CheckSlot(feature, slots_.back());
    case v1::Feature::kSequence: {
      Slot slot = SlotOf(feature, feature.sequence());
      slot.is_sequence = true;
      slot.pooling = feature.sequence().pooling();
      slot.max_length = feature.sequence().max_length();
      slots_.push_back(std::move(slot));
      return CheckSlot(feature, slots_.back());
    }
    case v1::Feature::KIND_NOT_SET:
      break;
  }
  return Wrong(feature,
               "says not what it is; legal are label, weight, group, dense, "
               "sparse and sequence");
}

absl::Status FeatureList::ResolveShares() {
  std::map<std::string, const Slot*> by_name;
  for (const Slot& slot : slots_) by_name[slot.name] = &slot;
  for (Slot& slot : slots_) {
    if (slot.rows_of == slot.name) continue;
    const auto found = by_name.find(slot.rows_of);
    const bool has_rows =
        found != by_name.end() && found->second->rows_of == found->second->name;
    if (!has_rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature '", slot.name, "' shares '", slot.rows_of, "', which ",
          found == by_name.end() ? "is no sparse feature or sequence"
                                 : "shares another one's rows itself",
          "; name one that has rows of its own"));
    }
    const Slot& owner = *found->second;
    if ((slot.dim != 0 && slot.dim != owner.dim) ||
        (slot.type != v1::AS_IT_IS && slot.type != owner.type)) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", slot.name, "' shares '", owner.name,
                       "', and has another dim or type; leave them out"));
    }
    slot.dim = owner.dim;
    slot.type = owner.type;
    slot.number = owner.number;
  }
  return absl::OkStatus();
}

std::string FeatureList::ToJson() const {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails for types that are not linked, and messages of ours have none.
  const auto printed =
      google::protobuf::util::MessageToJsonString(message_, &json, options);
  OARLOCK_CHECK(printed.ok());
  return json;
}

bool FeatureList::has_key_weights() const {
  const auto is_pooled = [&](v1::SequenceFeature::Pooling pooling) {
    return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
      return slot.is_sequence && slot.pooling == pooling;
    });
  };
  return is_pooled(v1::SequenceFeature::MEAN) &&
         is_pooled(v1::SequenceFeature::SUM);
}

bool FeatureList::is_numbered() const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.number != 0; });
}

}  // namespace oarlock::data
