#include "data/arrow/resolve_types.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "data/arrow/block_writer.h"
#include "data/arrow/feature_columns.h"

namespace oarlock::data {
namespace {

// Whether the features take the columns of a file, whatever numbers they have.
absl::Status CheckColumns(const FeatureList& features,
                          const ArrowSchema& schema) {
  v1::FeatureList message = features.message();
  for (v1::Feature& feature : *message.mutable_features()) {
    if (feature.has_sparse()) feature.mutable_sparse()->set_number(1);
    if (feature.has_sequence()) feature.mutable_sequence()->set_number(1);
  }
  OARLOCK_ASSIGN_OR_RETURN(FeatureList numbered, FeatureList::Create(message));
  return BlockWriter(std::move(numbered)).Bind(schema);
}

}  // namespace

absl::StatusOr<FeatureList> ResolveTypes(const FeatureList& features,
                                         const ArrowSchema& schema) {
  v1::FeatureList message = features.message();
  for (v1::Feature& feature : *message.mutable_features()) {
    std::vector<int64_t> path;
    const ArrowSchema* column = FindColumn(schema, feature.name(), &path);
    if (column == nullptr) continue;
    const bool is_list = TypeOf(*column).is_list() && column->n_children == 1;
    const auto resolve = [&](auto* kind) -> absl::Status {
      if (kind->type() != v1::AS_IT_IS || !kind->shares().empty()) {
        return absl::OkStatus();
      }
      OARLOCK_ASSIGN_OR_RETURN(
          const v1::IdType type,
          IdTypeOf(feature.name(), is_list ? *column->children[0] : *column));
      kind->set_type(type);
      return absl::OkStatus();
    };
    if (feature.has_sparse()) {
      OARLOCK_RETURN_IF_ERROR(resolve(feature.mutable_sparse()));
    } else if (feature.has_sequence()) {
      OARLOCK_RETURN_IF_ERROR(resolve(feature.mutable_sequence()));
    }
  }
  OARLOCK_ASSIGN_OR_RETURN(FeatureList resolved, FeatureList::Create(message));
  OARLOCK_RETURN_IF_ERROR(CheckColumns(resolved, schema));
  return resolved;
}

}  // namespace oarlock::data
