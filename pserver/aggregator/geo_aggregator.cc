#include "pserver/aggregator/geo_aggregator.h"

#include <google/protobuf/util/message_differencer.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/types.h"

namespace oarlock::pserver {
namespace {

// No worker's index: the entries with it are listed to all workers.
constexpr uint32_t kNobody = ~uint32_t{0};

// The worker whose changes these are, as the log needs it. A worker that
// completes the push of a dead one does not have the changed rows, so it is
// listed to all.
WorkerIndex AuthorOf(const v1::RequestHeader& header) {
  return header.completing_generation() != 0
             ? WorkerIndex(kNobody)
             : WorkerIndex(header.worker_index());
}

}  // namespace

absl::Status CheckGeoTable(const v1::TableConfig& config) {
  v1::OptimizerConfig subtract;
  subtract.mutable_sgd();
  subtract.set_learning_rate(1);
  if (!google::protobuf::util::MessageDifferencer::Equals(config.optimizer(),
                                                          subtract)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "geo table %d '%s' has optimizer {%s}; legal is {%s}: workers apply "
        "their rule, a push is subtracted as it is",
        config.id(), config.name(), config.optimizer().ShortDebugString(),
        subtract.ShortDebugString()));
  }
  const v1::SparseTableConfig& sparse = config.sparse();
  const char* const field = sparse.has_admission()      ? "admission"
                            : sparse.has_eviction()     ? "eviction"
                            : sparse.extended_dim() > 0 ? "extended_dim"
                            : sparse.ctr().divide_by_show()
                                ? "ctr.divide_by_show"
                                : nullptr;
  if (field == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "geo table %d '%s' has %s; legal is without: what a worker pushes must "
      "arrive in the row as it is",
      config.id(), config.name(), field));
}

void GeoAggregator::PushSparse(wire::PushSparseRequestView push,
                               PushDone done) {
  thread_local std::vector<Key> key_scratch;
  // The request's bytes stay while the push is applied and answered.
  const wire::SlicedBytes keys = push.keys;
  const size_t num_keys = push.num_keys;
  const WorkerIndex author = AuthorOf(push.header);
  AsyncAggregator::PushSparse(
      std::move(push), [this, &keys, num_keys, author,
                        &done](absl::StatusOr<PushOutcome> outcome) {
        changes_->Add(
            author, {keys.Elements<Key>(0, num_keys, &key_scratch), num_keys});
        done(std::move(outcome));
      });
}

}  // namespace oarlock::pserver
