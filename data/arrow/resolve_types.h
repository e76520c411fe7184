// The types of features' ids, from the columns of a file.

#ifndef OARLOCK_DATA_ARROW_RESOLVE_TYPES_H_
#define OARLOCK_DATA_ARROW_RESOLVE_TYPES_H_

#include "absl/status/statusor.h"
#include "data/arrow/c_data.h"
#include "data/features/feature_list.h"

namespace oarlock::data {

// The list with each feature AS_IT_IS made what its column is, where `schema`,
// that of a file, has the column. Errors: as of BlockWriter::Bind.
absl::StatusOr<FeatureList> ResolveTypes(const FeatureList& features,
                                         const ArrowSchema& schema);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ARROW_RESOLVE_TYPES_H_
