#include "wire/wire_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "wire/wire_limits.h"

namespace oarlock::wire {
namespace {

// Writes the one line of a failed check.
class Checker {
 public:
  explicit Checker(absl::string_view message) : message_(message) {}

  template <typename... Parts>
  absl::Status Invalid(absl::string_view field, const Parts&... parts) const {
    return absl::InvalidArgumentError(
        absl::StrCat(message_, ".", field, ": ", parts...));
  }

  absl::Status AtMost(absl::string_view field, size_t size,
                      size_t limit) const {
    if (size <= limit) return absl::OkStatus();
    return Invalid(field, "has ", size, " elements; at most ", limit,
                   " are legal in one message; split it");
  }

  // `size` elements, one for each of `count` `things`.
  absl::Status OnePer(absl::string_view field, size_t size, size_t count,
                      absl::string_view things) const {
    if (size == count) return absl::OkStatus();
    return Invalid(field, "has ", size, " elements for ", count, " ", things,
                   "; there must be one for each");
  }

  absl::Status Ascending(absl::string_view field,
                         const std::vector<uint32_t>& values) const {
    OARLOCK_RETURN_IF_ERROR(AtMost(field, values.size(), kMaxGroupsPerMessage));
    for (size_t i = 1; i < values.size(); ++i) {
      if (values[i - 1] >= values[i]) {
        return Invalid(field, values[i], " follows ", values[i - 1],
                       " at position ", i,
                       "; they must ascend, each at most once");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Format(int format) const {
    if (v1::ValueFormat_IsValid(format)) return absl::OkStatus();
    return Invalid("format", "is ", format,
                   "; legal are FLOAT32 (0), BFLOAT16 (1), FLOAT16 (2)");
  }

  absl::Status MessageNumber(const v1::RequestHeader& header) const {
    if (header.message_count() == 0 || header.table_message_count() == 0) {
      return Invalid("header", "message_count is ", header.message_count(),
                     " and table_message_count ", header.table_message_count(),
                     "; a push has at least one message");
    }
    if (header.message_index() >= header.message_count() ||
        header.table_message_count() > header.message_count()) {
      return Invalid("header", "message_index is ", header.message_index(),
                     " and table_message_count ", header.table_message_count(),
                     " of message_count ", header.message_count(),
                     "; the index must be below it, the count at most it");
    }
    return absl::OkStatus();
  }

 private:
  const absl::string_view message_;
};

// Groups of a request and the number of keys they hold.
absl::Status CompleteGroups(const Checker& check, const RawFields& raw,
                            const SlicedBytes& keys,
                            std::vector<KeyGroup>* groups, size_t* num_keys) {
  *num_keys = keys.size() / sizeof(Key);
  OARLOCK_RETURN_IF_ERROR(check.AtMost("keys", *num_keys, kMaxKeysPerMessage));
  OARLOCK_RETURN_IF_ERROR(check.Ascending("partitions", raw.indices));
  OARLOCK_RETURN_IF_ERROR(check.OnePer("group_sizes", raw.group_sizes.size(),
                                       raw.indices.size(), "partitions"));
  groups->reserve(raw.indices.size());
  uint64_t sum = 0;
  for (size_t i = 0; i < raw.indices.size(); ++i) {
    groups->push_back({.partition = PartitionIndex(raw.indices[i]),
                       .num_keys = raw.group_sizes[i]});
    sum += raw.group_sizes[i];
  }
  if (sum == *num_keys) return absl::OkStatus();
  return check.Invalid("group_sizes", "sum to ", sum, " for ", *num_keys,
                       " keys; the sum must be the number of keys");
}

absl::Status CompleteBlocks(const Checker& check, const RawFields& raw,
                            std::vector<BlockIndex>* blocks) {
  OARLOCK_RETURN_IF_ERROR(check.Ascending("blocks", raw.indices));
  blocks->reserve(raw.indices.size());
  for (uint32_t block : raw.indices) blocks->push_back(BlockIndex(block));
  return absl::OkStatus();
}

// Values in whatever format they came.
absl::Status CompleteValues(const Checker& check, const RawFields& raw,
                            ReceivedFloats* values, size_t* num_values) {
  OARLOCK_RETURN_IF_ERROR(check.Format(raw.format));
  if (raw.format == v1::FLOAT32) {
    if (!raw.values16.empty()) {
      return check.Invalid("values16", "has ", raw.values16.size(),
                           " bytes though format is FLOAT32; send `values`, "
                           "or name the format");
    }
    *values = ReceivedFloats(raw.values);
  } else {
    if (!raw.values.empty()) {
      return check.Invalid("values", "has ", raw.values.size(),
                           " bytes though format is a 16-bit one; send "
                           "`values16` alone");
    }
    if (raw.values16.size() % sizeof(uint16_t) != 0) {
      return check.Invalid("values16", "has ", raw.values16.size(),
                           " bytes; the number must be even");
    }
    *values =
        ReceivedFloats(raw.values16, static_cast<v1::ValueFormat>(raw.format));
  }
  *num_values = values->size();
  return absl::OkStatus();
}

// Optional arrays: empty, or a float per key.
absl::Status CheckStatistics(const Checker& check, const SlicedBytes& shows,
                             const SlicedBytes& clicks, size_t num_keys) {
  if (!shows.empty()) {
    OARLOCK_RETURN_IF_ERROR(
        check.OnePer("shows", shows.size() / sizeof(float), num_keys, "keys"));
  }
  if (!clicks.empty()) {
    OARLOCK_RETURN_IF_ERROR(check.OnePer(
        "clicks", clicks.size() / sizeof(float), num_keys, "keys"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAndComplete(const RawFields& raw,
                              PullSparseRequestView* view) {
  const Checker check("PullSparseRequest");
  OARLOCK_RETURN_IF_ERROR(check.Format(raw.format));
  view->format = static_cast<v1::ValueFormat>(raw.format);
  OARLOCK_RETURN_IF_ERROR(
      CompleteGroups(check, raw, view->keys, &view->groups, &view->num_keys));
  if (view->held_versions.empty()) return absl::OkStatus();
  return check.OnePer("held_versions", view->held_versions.size(),
                      view->groups.size(), "groups");
}

absl::Status CheckAndComplete(const RawFields& raw,
                              PullSparseResponseView* view) {
  const Checker check("PullSparseResponse");
  if (raw.changed_only || !raw.indices.empty()) {
    return check.Invalid("changed_only",
                         "says that only changed rows follow; this client "
                         "holds no rows, so all of them must");
  }
  OARLOCK_RETURN_IF_ERROR(check.AtMost(
      "group_versions", view->group_versions.size(), kMaxGroupsPerMessage));
  OARLOCK_RETURN_IF_ERROR(
      CompleteValues(check, raw, &view->values, &view->num_values));
  if (view->num_values == 0) {
    return CheckStatistics(check, view->shows, view->clicks, 0);
  }
  if (view->dim == 0 || view->num_values % view->dim != 0) {
    return check.Invalid("values", "has ", view->num_values,
                         " elements for rows of dim ", view->dim,
                         "; there must be whole rows");
  }
  return CheckStatistics(check, view->shows, view->clicks,
                         view->num_values / view->dim);
}

absl::Status CheckAndComplete(const RawFields& raw,
                              PushSparseRequestView* view) {
  const Checker check("PushSparseRequest");
  OARLOCK_RETURN_IF_ERROR(check.MessageNumber(view->header));
  OARLOCK_RETURN_IF_ERROR(
      CompleteGroups(check, raw, view->keys, &view->groups, &view->num_keys));
  OARLOCK_RETURN_IF_ERROR(
      CompleteValues(check, raw, &view->values, &view->num_values));
  if (view->num_keys == 0 ? view->num_values != 0
                          : view->num_values % view->num_keys != 0) {
    return check.Invalid("values", "has ", view->num_values, " elements for ",
                         view->num_keys,
                         " keys; there must be as many for each");
  }
  OARLOCK_RETURN_IF_ERROR(
      CheckStatistics(check, view->shows, view->clicks, view->num_keys));
  if (view->counts.empty()) return absl::OkStatus();
  return check.OnePer("counts", view->counts.size(), view->num_keys, "keys");
}

absl::Status CheckAndComplete(const RawFields& raw,
                              PullDenseRequestView* view) {
  const Checker check("PullDenseRequest");
  OARLOCK_RETURN_IF_ERROR(check.Format(raw.format));
  view->format = static_cast<v1::ValueFormat>(raw.format);
  OARLOCK_RETURN_IF_ERROR(CompleteBlocks(check, raw, &view->blocks));
  return check.OnePer("known_versions", view->known_versions.size(),
                      view->blocks.size(), "blocks");
}

absl::Status CheckAndComplete(const RawFields& raw, DenseResponseView* view) {
  const Checker check("DenseResponse");
  OARLOCK_RETURN_IF_ERROR(CompleteBlocks(check, raw, &view->blocks));
  OARLOCK_RETURN_IF_ERROR(check.OnePer("versions", view->versions.size(),
                                       view->blocks.size(), "blocks"));
  return CompleteValues(check, raw, &view->values, &view->num_values);
}

absl::Status CheckAndComplete(const RawFields& raw,
                              PushDenseRequestView* view) {
  const Checker check("PushDenseRequest");
  OARLOCK_RETURN_IF_ERROR(check.MessageNumber(view->header));
  OARLOCK_RETURN_IF_ERROR(check.Format(raw.response_format));
  view->response_format = static_cast<v1::ValueFormat>(raw.response_format);
  OARLOCK_RETURN_IF_ERROR(CompleteBlocks(check, raw, &view->blocks));
  if (!view->known_versions.empty()) {
    OARLOCK_RETURN_IF_ERROR(check.OnePer("known_versions",
                                         view->known_versions.size(),
                                         view->blocks.size(), "blocks"));
  }
  return CompleteValues(check, raw, &view->values, &view->num_values);
}

}  // namespace oarlock::wire
