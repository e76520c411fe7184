// The functions of oarlock.h for features: record batches of Arrow become
// blocks of the engine's.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "capi/calls.h"
#include "capi/include/oarlock/oarlock.h"
#include "capi/json.h"
#include "data/arrow/block_writer.h"
#include "data/arrow/resolve_types.h"
#include "data/features/feature_list.h"

namespace oarlock::capi {
namespace {

// What an oarlock_features is.
struct FeaturesOfCaller {
  explicit FeaturesOfCaller(data::FeatureList given) : list(std::move(given)) {
    if (list.is_numbered()) writer.emplace(list);
  }

  const data::FeatureList list;
  absl::Mutex mutex;
  // Not there: features without numbers write nothing.
  std::optional<data::BlockWriter> writer ABSL_GUARDED_BY(mutex);
  bool is_bound ABSL_GUARDED_BY(mutex) = false;
  // The batch that was prepared, and its rows and bytes.
  const ArrowArray* prepared ABSL_GUARDED_BY(mutex) = nullptr;
  int64_t prepared_rows ABSL_GUARDED_BY(mutex) = 0;
  uint64_t prepared_bytes ABSL_GUARDED_BY(mutex) = 0;
};

// Calls run(features).
template <typename Run>
oarlock_code WithFeatures(oarlock_features handle, oarlock_error* error,
                          Run run) {
  return Call(error, [&]() -> Outcome {
    const std::shared_ptr<FeaturesOfCaller> found =
        HandlesOf<FeaturesOfCaller>().Find(handle);
    if (found == nullptr) return ClosedHandle("features", handle);
    return run(*found);
  });
}

Outcome NotBound() {
  return absl::FailedPreconditionError(
      "the features are bound to no schema; bind them first");
}

}  // namespace
}  // namespace oarlock::capi

// NOLINTNEXTLINE(google-build-using-namespace): this file is its outside
using namespace oarlock::capi;

extern "C" {

oarlock_code oarlock_features_create(const char* list, size_t list_size,
                                     oarlock_features* features,
                                     oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    if (features == nullptr) return NullArgument("features");
    *features = 0;
    std::string text;
    const Outcome outcome = ToText(list, list_size, "list", &text);
    if (!outcome.ok()) return outcome;
    auto parsed = oarlock::data::FeatureList::Parse(text);
    if (!parsed.ok()) return parsed.status();
    *features = HandlesOf<FeaturesOfCaller>().Add(
        std::make_shared<FeaturesOfCaller>(*std::move(parsed)));
    return {};
  });
}

oarlock_code oarlock_features_resolve(oarlock_features features,
                                      const struct ArrowSchema* schema,
                                      char* buffer, size_t capacity,
                                      size_t* size, oarlock_error* error) {
  return WithFeatures(features, error, [&](FeaturesOfCaller& found) -> Outcome {
    if (schema == nullptr) return NullArgument("schema");
    const auto resolved = oarlock::data::ResolveTypes(found.list, *schema);
    if (!resolved.ok()) return resolved.status();
    return CopyOut(ToJson(resolved->message()), buffer, capacity, size);
  });
}

oarlock_code oarlock_features_bind(oarlock_features features,
                                   const struct ArrowSchema* schema,
                                   oarlock_error* error) {
  return WithFeatures(features, error, [&](FeaturesOfCaller& found) -> Outcome {
    if (schema == nullptr) return NullArgument("schema");
    absl::MutexLock lock(&found.mutex);
    found.is_bound = false;
    found.prepared = nullptr;
    if (!found.writer.has_value()) {
      return absl::FailedPreconditionError(
          "the features have no numbers; take the list that a job has");
    }
    const absl::Status bound = found.writer->Bind(*schema);
    found.is_bound = bound.ok();
    return bound;
  });
}

oarlock_code oarlock_features_prepare(oarlock_features features,
                                      const struct ArrowArray* batch,
                                      uint64_t* bytes, oarlock_error* error) {
  return WithFeatures(features, error, [&](FeaturesOfCaller& found) -> Outcome {
    if (batch == nullptr) return NullArgument("batch");
    if (bytes == nullptr) return NullArgument("bytes");
    absl::MutexLock lock(&found.mutex);
    found.prepared = nullptr;
    if (!found.is_bound) return NotBound();
    const absl::StatusOr<uint64_t> prepared = found.writer->Prepare(*batch);
    if (!prepared.ok()) return prepared.status();
    *bytes = found.prepared_bytes = *prepared;
    found.prepared = batch;
    found.prepared_rows = batch->length;
    return {};
  });
}

oarlock_code oarlock_features_write(oarlock_features features,
                                    const struct ArrowArray* batch,
                                    void* memory, uint64_t bytes,
                                    oarlock_error* error) {
  return WithFeatures(features, error, [&](FeaturesOfCaller& found) -> Outcome {
    if (batch == nullptr) return NullArgument("batch");
    if (memory == nullptr) return NullArgument("memory");
    absl::MutexLock lock(&found.mutex);
    if (found.prepared != batch || found.prepared_rows != batch->length) {
      return absl::FailedPreconditionError(
          "another batch was prepared, or none; prepare this one first");
    }
    if (bytes < found.prepared_bytes) {
      return {OARLOCK_TOO_SMALL,
              absl::StrCat("the memory has ", bytes, " bytes; ",
                           found.prepared_bytes, " are needed")};
    }
    found.writer->Write(*batch, memory);
    found.prepared = nullptr;
    return {};
  });
}

oarlock_code oarlock_features_free(oarlock_features features,
                                   oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    const auto found = HandlesOf<FeaturesOfCaller>().Remove(features);
    return found == nullptr ? ClosedHandle("features", features) : Outcome();
  });
}

}  // extern "C"
