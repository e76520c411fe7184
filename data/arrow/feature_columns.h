// Which columns of a file are those of features, and whether features take
// their types.

#ifndef OARLOCK_DATA_ARROW_FEATURE_COLUMNS_H_
#define OARLOCK_DATA_ARROW_FEATURE_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/arrow/c_data.h"
#include "data/arrow/column.h"
#include "data/features/feature_list.h"

namespace oarlock::data {

// InvalidArgument: "column 'user' is of type double", and why that is wrong.
absl::Status Refuse(const std::string& column, const ArrowSchema& schema,
                    const std::string& why);

// The type of the ids in a column, for a feature AS_IT_IS: STRING or INTEGER.
// InvalidArgument names the column, its type and what is legal where ids cannot
// be of that type. A column of nulls alone says nothing: AS_IT_IS.
absl::StatusOr<v1::IdType> IdTypeOf(const std::string& column,
                                    const ArrowSchema& schema);

// The type that numbers index a dictionary with.
ArrowType IndexType(const ArrowSchema& schema);

// The column of that name, also a field of a struct ("a.b"), and the children
// that lead to it; null: there is none.
const ArrowSchema* FindColumn(const ArrowSchema& schema,
                              const std::string& name,
                              std::vector<int64_t>* path);

// Whether a sparse feature or a sequence takes the column.
absl::Status CheckIds(const FeatureList::Slot& slot, const ArrowSchema& schema);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ARROW_FEATURE_COLUMNS_H_
