#include "data/arrow/feature_columns.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

constexpr char kLegalIds[] =
    "legal are integers, bool, text and binary, and dictionaries of these";

const ArrowSchema* ChildOf(const ArrowSchema& schema, const std::string& name,
                           int64_t* index) {
  for (int64_t i = 0; i < schema.n_children; ++i) {
    if (schema.children[i]->name != nullptr &&
        name == schema.children[i]->name) {
      *index = i;
      return schema.children[i];
    }
  }
  return nullptr;
}

}  // namespace

absl::Status Refuse(const std::string& column, const ArrowSchema& schema,
                    const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "column '", column, "' is of type ", NameOfType(schema), why));
}

absl::StatusOr<v1::IdType> IdTypeOf(const std::string& column,
                                    const ArrowSchema& schema) {
  const ArrowType type = TypeOf(schema);
  if (type.kind == ArrowKind::kNull) return v1::AS_IT_IS;
  if (type.is_integer()) return v1::INTEGER;
  if (type.is_text()) return v1::STRING;
  const bool is_float = type.is_number();
  return Refuse(
      column, schema,
      absl::StrCat(", which is no type of ids; ", kLegalIds,
                   is_float ? ": convert it (pandas makes floats of integers "
                              "with nulls; Int64 stays integers)"
                            : ""));
}

ArrowType IndexType(const ArrowSchema& schema) {
  ArrowSchema index = schema;
  index.dictionary = nullptr;
  return TypeOf(index);
}

const ArrowSchema* FindColumn(const ArrowSchema& schema,
                              const std::string& name,
                              std::vector<int64_t>* path) {
  int64_t index = 0;
  if (const ArrowSchema* found = ChildOf(schema, name, &index)) {
    path->push_back(index);
    return found;
  }
  // Names with dots: the shortest struct first.
  for (size_t dot = name.find('.'); dot != std::string::npos;
       dot = name.find('.', dot + 1)) {
    const ArrowSchema* const outer =
        ChildOf(schema, name.substr(0, dot), &index);
    if (outer == nullptr || TypeOf(*outer).kind != ArrowKind::kStruct) continue;
    path->push_back(index);
    const ArrowSchema* const found =
        FindColumn(*outer, name.substr(dot + 1), path);
    if (found != nullptr) return found;
    path->pop_back();
  }
  return nullptr;
}

absl::Status CheckIds(const FeatureList::Slot& slot,
                      const ArrowSchema& schema) {
  const ArrowType type = TypeOf(schema);
  const ArrowSchema* ids = &schema;
  if (slot.is_sequence && type.kind != ArrowKind::kNull) {
    if (!type.is_list() || schema.n_children != 1) {
      return Refuse(slot.name, schema,
                    ", and the feature is a sequence; legal are lists of ids");
    }
    ids = schema.children[0];
  } else if (type.is_list()) {
    return Refuse(slot.name, schema,
                  ", and the feature has one id; make it a sequence");
  }
  OARLOCK_ASSIGN_OR_RETURN(const v1::IdType is, IdTypeOf(slot.name, *ids));
  if (is == v1::AS_IT_IS) return absl::OkStatus();
  if (slot.type == v1::INTEGER && is == v1::STRING) {
    return Refuse(slot.name, schema,
                  ", and the feature's ids are integers: its rows would all be "
                  "new; convert the column, or give the feature another name");
  }
  if (slot.type == v1::STRING && is == v1::INTEGER) {
    return Refuse(slot.name, schema,
                  ", and the feature's ids are text: its rows would all be "
                  "new; convert the column, or give the feature another name "
                  "(type TEXT takes both)");
  }
  return absl::OkStatus();
}

}  // namespace oarlock::data
