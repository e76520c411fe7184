#include "data/arrow/block_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "data/arrow/feature_columns.h"

namespace oarlock::data {
namespace {

// Rows whose keys stay in the second-level cache while all columns write them.
constexpr int64_t kTileRows = 1024;
constexpr uint64_t kMaxKeys = uint64_t{1} << 31;

struct Validity {
  const uint8_t* bits = nullptr;
  int64_t offset = 0;
  bool IsNull(int64_t i) const {
    return bits != nullptr &&
           ((bits[(i + offset) >> 3] >> ((i + offset) & 7)) & 1) == 0;
  }
};

Validity ValidityOf(const ArrowArray& array) {
  return {array.null_count == 0 || array.n_buffers == 0
              ? nullptr
              : static_cast<const uint8_t*>(array.buffers[0]),
          array.offset};
}

// Calls f(key_of), where key_of(i) is the key of value i, which is not null.
template <typename F>
void WithKeys(const ArrowValues& values, const FeatureKeys& keys,
              v1::IdType type, F f) {
  if (values.type().kind == ArrowKind::kNull) {
    return f([&keys](int64_t) { return keys.OfNull(); });
  }
  if (values.type().is_text()) {
    return values.WithTexts([&](auto read) {
      f([&keys, read](int64_t i) { return keys.OfText(read(i)); });
    });
  }
  if (type == v1::INTEGER) {
    return values.WithIntegers([&](auto read) {
      f([&keys, read](int64_t i) { return keys.OfInteger(read(i)); });
    });
  }
  const bool is_unsigned = values.type().kind == ArrowKind::kUint64;
  values.WithIntegers([&](auto read) {
    f([&keys, read, is_unsigned](int64_t i) {
      char digits[24];
      const int64_t value = read(i);
      const char* const end =
          is_unsigned ? std::to_chars(digits, std::end(digits),
                                      static_cast<uint64_t>(value))
                            .ptr
                      : std::to_chars(digits, std::end(digits), value).ptr;
      return keys.OfText({digits, static_cast<size_t>(end - digits)});
    });
  });
}

float Transformed(v1::DenseFeature::Transform transform, double value) {
  if (transform == v1::DenseFeature::LOG1P) {
    return static_cast<float>(std::log1p(std::max(value, 0.0)));
  }
  return static_cast<float>(value);
}

// Marks bad rows, and keeps why the first one is one.
class BadRows {
 public:
  explicit BadRows(const FeatureBlockArrays& to) : to_(to) {}

  template <typename... Words>
  void Add(int64_t row, const Words&... why) {
    if (to_.bad[row] == 0) {
      to_.bad[row] = 1;
      ++to_.header->num_bad;
    }
    if (row >= first_) return;
    first_ = row;
    const std::string reason = absl::StrCat(why...);
    to_.header->first_bad_row = static_cast<uint32_t>(row);
    to_.header->reason_bytes = static_cast<uint32_t>(
        std::min(reason.size(), FeatureBlockHeader::kReasonBytes));
    std::memcpy(to_.reason, reason.data(), to_.header->reason_bytes);
  }

 private:
  const FeatureBlockArrays& to_;
  int64_t first_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

// Where a column is, and its types.
struct BlockWriter::Place {
  bool is_missing = false;
  std::string column;
  // Children from the top on.
  std::vector<int64_t> path;
  // Of the column; of a list, and of its elements.
  ArrowType type;
  bool is_dictionary = false;
  ArrowType index_type;
  ArrowType element;
  bool is_element_dictionary = false;
  ArrowType element_index_type;
};

// Row i of the batch is value i + shift of the array.
struct BlockWriter::Column {
  const ArrowArray* array = nullptr;
  int64_t shift = 0;
  // Those of the structs around it, and by how much their rows are shifted.
  std::vector<std::pair<Validity, int64_t>> parents;

  bool IsParentNull(int64_t row) const {
    for (const auto& [validity, shift] : parents) {
      if (validity.IsNull(row + shift)) return true;
    }
    return false;
  }
};

// A slot's column, and the keys of its values.
class BlockWriter::SlotColumn {
 public:
  explicit SlotColumn(const FeatureList::Slot& slot)
      : slot_(slot), keys_(slot.keys()) {}

  const FeatureList::Slot& slot() const { return slot_; }
  void Bind(Place place) {
    place_ = std::move(place);
    dictionary_ = {};
  }
  const Place& place() const { return place_; }

  // The keys of rows [begin, end) of one id each, row i's at
  // to[offset_of(i)].
  template <typename OffsetOf>
  void WriteIds(const Column& column, int64_t begin, int64_t end,
                OffsetOf offset_of, Key* to) {
    if (place_.type.kind == ArrowKind::kNull) {
      for (int64_t i = begin; i < end; ++i) to[offset_of(i)] = keys_.OfNull();
      return;
    }
    WithKeysOf(*column.array, place_.type, place_.is_dictionary,
               place_.index_type, [&](const ArrowValues& values, auto key_of) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t at = i + column.shift;
                   const bool is_null =
                       values.IsNull(at) || column.IsParentNull(i);
                   to[offset_of(i)] = is_null ? keys_.OfNull() : key_of(at);
                 }
               });
  }
  // How many ids of a sequence count, of all rows: length[i * stride].
  void CountElements(const Column& column, int64_t num_rows, size_t stride,
                     uint32_t* lengths) const {
    if (place_.type.kind == ArrowKind::kNull) {
      for (int64_t i = 0; i < num_rows; ++i) lengths[i * stride] = 0;
      return;
    }
    const ArrowLists lists(place_.type, *column.array);
    const ArrowValues values = ElementsOf(column);
    for (int64_t i = 0; i < num_rows; ++i) {
      uint32_t length = 0;
      if (!column.IsParentNull(i)) {
        const ArrowLists::Range range = lists.At(i + column.shift);
        for (int64_t j = range.begin; j < range.end && length < max_length();
             ++j) {
          length += values.IsNull(j) ? 0 : 1;
        }
      }
      lengths[i * stride] = length;
    }
  }
  // The keys of rows [begin, end) of a sequence, from to[offset_of(i)] on.
  template <typename OffsetOf>
  void WriteElements(const Column& column, int64_t begin, int64_t end,
                     OffsetOf offset_of, Key* to) {
    if (place_.type.kind == ArrowKind::kNull) return;
    const ArrowLists lists(place_.type, *column.array);
    const auto write = [&](const ArrowValues& values, auto key_of) {
      for (int64_t i = begin; i < end; ++i) {
        if (column.IsParentNull(i)) continue;
        const ArrowLists::Range range = lists.At(i + column.shift);
        Key* next = to + offset_of(i);
        uint32_t length = 0;
        for (int64_t j = range.begin; j < range.end && length < max_length();
             ++j) {
          if (values.IsNull(j)) continue;
          *next++ = key_of(j);
          ++length;
        }
      }
    };
    WithKeysOf(ChildOf(column), place_.element, place_.is_element_dictionary,
               place_.element_index_type, write);
  }

 private:
  // Keys of the values of a dictionary, and which one it was.
  struct Dictionary {
    const void* values = nullptr;
    int64_t offset = 0;
    int64_t length = 0;
    std::vector<Key> keys;
  };

  uint32_t max_length() const {
    return slot_.max_length == 0 ? std::numeric_limits<uint32_t>::max()
                                 : slot_.max_length;
  }
  const ArrowArray& ChildOf(const Column& column) const {
    return *column.array->children[0];
  }
  ArrowValues ElementsOf(const Column& column) const {
    return ArrowValues(place_.is_element_dictionary ? place_.element_index_type
                                                    : place_.element,
                       ChildOf(column));
  }
  // Calls f(values, key_of): values say which are null.
  template <typename F>
  void WithKeysOf(const ArrowArray& array, const ArrowType& type,
                  bool is_dictionary, const ArrowType& index_type, F f) {
    if (!is_dictionary) {
      const ArrowValues values(type, array);
      WithKeys(values, keys_, slot_.type,
               [&](auto key_of) { f(values, key_of); });
      return;
    }
    HashDictionary(*array.dictionary, type);
    const ArrowValues indices(index_type, array);
    indices.WithIntegers([&](auto read) {
      f(indices, [read, keys = dictionary_.keys.data()](int64_t i) {
        return keys[read(i)];
      });
    });
  }
  void HashDictionary(const ArrowArray& array, const ArrowType& type) {
    const void* const values = array.n_buffers > 1 ? array.buffers[1] : nullptr;
    if (dictionary_.values == values && dictionary_.offset == array.offset &&
        dictionary_.length == array.length) {
      return;
    }
    dictionary_.values = values;
    dictionary_.offset = array.offset;
    dictionary_.length = array.length;
    dictionary_.keys.resize(array.length);
    const ArrowValues texts(type, array);
    WithKeys(texts, keys_, slot_.type, [&](auto key_of) {
      for (int64_t i = 0; i < array.length; ++i) {
        dictionary_.keys[i] = texts.IsNull(i) ? keys_.OfNull() : key_of(i);
      }
    });
  }

  const FeatureList::Slot slot_;
  const FeatureKeys keys_;
  Place place_;
  Dictionary dictionary_;
};

BlockWriter::BlockWriter(FeatureList features)
    : features_(std::move(features)) {
  for (const FeatureList::Slot& slot : features_.slots()) {
    OARLOCK_CHECK(slot.number != 0);
    slots_.push_back(std::make_unique<SlotColumn>(slot));
    has_sequences_ = has_sequences_ || slot.is_sequence;
  }
  has_key_weights_ = features_.has_key_weights();
}

BlockWriter::~BlockWriter() = default;

absl::StatusOr<BlockWriter::Place> BlockWriter::Find(
    const ArrowSchema& schema, const std::string& name,
    bool missing_is_null) const {
  Place place;
  place.column = name;
  const ArrowSchema* const column = FindColumn(schema, name, &place.path);
  if (column == nullptr) {
    if (!missing_is_null) {
      return absl::InvalidArgumentError(absl::StrCat(
          "column '", name,
          "' is missing; add it, or let the feature take null for it "
          "(missing_is_null)"));
    }
    place.is_missing = true;
    place.type.kind = ArrowKind::kNull;
    return place;
  }
  place.type = TypeOf(*column);
  place.is_dictionary = column->dictionary != nullptr;
  if (place.is_dictionary) place.index_type = IndexType(*column);
  if (place.type.is_list() && column->n_children == 1) {
    const ArrowSchema& element = *column->children[0];
    place.element = TypeOf(element);
    place.is_element_dictionary = element.dictionary != nullptr;
    if (place.is_element_dictionary) {
      place.element_index_type = IndexType(element);
    }
  }
  return place;
}

absl::Status BlockWriter::Bind(const ArrowSchema& schema) {
  num_columns_ = schema.n_children;
  const auto find_number = [&](const std::string& name, const char* kind,
                               std::unique_ptr<Place>* to) -> absl::Status {
    if (name.empty()) return absl::OkStatus();
    OARLOCK_ASSIGN_OR_RETURN(Place place,
                             Find(schema, name, /*missing_is_null=*/false));
    std::vector<int64_t> path;
    if (!place.type.is_number() && place.type.kind != ArrowKind::kNull) {
      return Refuse(name, *FindColumn(schema, name, &path),
                    absl::StrCat(", and the feature is ", kind,
                                 "; legal are numbers and bool"));
    }
    *to = std::make_unique<Place>(std::move(place));
    return absl::OkStatus();
  };
  OARLOCK_RETURN_IF_ERROR(find_number(features_.label(), "the label", &label_));
  OARLOCK_RETURN_IF_ERROR(
      find_number(features_.weight(), "the weight", &weight_));
  std::vector<int64_t> path;
  if (!features_.group().empty()) {
    OARLOCK_ASSIGN_OR_RETURN(
        Place place, Find(schema, features_.group(), /*missing=*/false));
    OARLOCK_RETURN_IF_ERROR(
        IdTypeOf(features_.group(),
                 *FindColumn(schema, features_.group(), &path))
            .status());
    group_ = std::make_unique<Place>(std::move(place));
  }
  dense_.clear();
  for (const FeatureList::Dense& dense : features_.dense()) {
    OARLOCK_ASSIGN_OR_RETURN(Place place,
                             Find(schema, dense.name, dense.missing_is_null));
    if (!place.type.is_number() && place.type.kind != ArrowKind::kNull) {
      path.clear();
      return Refuse(dense.name, *FindColumn(schema, dense.name, &path),
                    ", and the feature is dense; legal are numbers and bool");
    }
    dense_.push_back(std::move(place));
  }
  for (const std::unique_ptr<SlotColumn>& slot : slots_) {
    const FeatureList::Slot& feature = slot->slot();
    OARLOCK_ASSIGN_OR_RETURN(
        Place place, Find(schema, feature.name, feature.missing_is_null));
    if (!place.is_missing) {
      path.clear();
      OARLOCK_RETURN_IF_ERROR(
          CheckIds(feature, *FindColumn(schema, feature.name, &path)));
    }
    slot->Bind(std::move(place));
  }
  return absl::OkStatus();
}

BlockWriter::Column BlockWriter::ColumnOf(const Place& place,
                                          const ArrowArray& batch) const {
  Column column;
  if (place.is_missing) return column;
  column.array = &batch;
  for (const int64_t child : place.path) {
    if (column.array != &batch) {
      column.parents.emplace_back(ValidityOf(*column.array), column.shift);
    }
    column.shift += column.array->offset;
    column.array = column.array->children[child];
  }
  std::erase_if(column.parents, [](const auto& parent) {
    return parent.first.bits == nullptr;
  });
  return column;
}

absl::StatusOr<uint64_t> BlockWriter::Prepare(const ArrowArray& batch) {
  if (batch.n_children != num_columns_ || batch.length < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the batch has ", batch.n_children, " columns and ", batch.length,
        " rows; its schema has ", num_columns_, " columns"));
  }
  const int64_t num_rows = batch.length;
  const size_t num_slots = slots_.size();
  shape_ = {};
  shape_.num_rows = num_rows;
  shape_.num_dense = static_cast<uint32_t>(dense_.size());
  shape_.num_slots = static_cast<uint32_t>(num_slots);
  shape_.has_weights = weight_ != nullptr;
  shape_.has_groups = group_ != nullptr;
  shape_.has_offsets = has_sequences_;
  shape_.has_key_weights = has_key_weights_;
  shape_.num_keys = num_rows * num_slots;
  if (has_sequences_) {
    lengths_.assign(num_rows * num_slots, 1);
    for (size_t s = 0; s < num_slots; ++s) {
      if (!slots_[s]->slot().is_sequence) continue;
      slots_[s]->CountElements(ColumnOf(slots_[s]->place(), batch), num_rows,
                               num_slots, lengths_.data() + s);
    }
    shape_.num_keys = 0;
    for (const uint32_t length : lengths_) shape_.num_keys += length;
  }
  if (shape_.num_keys > kMaxKeys) {
    return absl::InvalidArgumentError(absl::StrCat(
        num_rows, " rows have ", shape_.num_keys, " ids; legal are up to ",
        kMaxKeys, ": write smaller row groups, or set max_length"));
  }
  uint64_t bytes = 0;
  FeatureBlockArrays::At(shape_, nullptr, &bytes);
  return bytes;
}

void BlockWriter::Write(const ArrowArray& batch, void* memory) {
  uint64_t bytes = 0;
  const FeatureBlockArrays to = FeatureBlockArrays::At(shape_, memory, &bytes);
  *to.header = {};
  to.header->magic = FeatureBlockHeader::kMagic;
  to.header->bytes = bytes;
  to.header->shape = shape_;
  std::fill_n(to.bad, shape_.num_rows, 0);
  WriteNumbers(batch, to);
  WriteKeys(batch, to);
}

void BlockWriter::WriteNumbers(const ArrowArray& batch,
                               const FeatureBlockArrays& to) {
  const auto num_rows = static_cast<int64_t>(shape_.num_rows);
  BadRows bad(to);
  // Calls take(row, value), or null(row).
  const auto for_each = [&](const Place& place, auto take, auto null) {
    const Column column = ColumnOf(place, batch);
    if (place.type.kind == ArrowKind::kNull) {
      for (int64_t i = 0; i < num_rows; ++i) null(i);
      return;
    }
    const ArrowArray& array =
        place.is_dictionary ? *column.array->dictionary : *column.array;
    const ArrowValues values(place.type, array);
    const ArrowValues indices(
        place.is_dictionary ? place.index_type : place.type, *column.array);
    for (int64_t i = 0; i < num_rows; ++i) {
      int64_t at = i + column.shift;
      bool is_null = indices.IsNull(at) || column.IsParentNull(i);
      if (!is_null && place.is_dictionary) {
        at = indices.IntegerAt(at);
        is_null = values.IsNull(at);
      }
      if (is_null) {
        null(i);
      } else {
        take(i, values.NumberAt(at));
      }
    }
  };
  for_each(
      *label_,
      [&](int64_t i, double value) {
        if (value != 0 && value != 1) {
          bad.Add(i, "the label '", label_->column, "' is ", value,
                  ", not 0 or 1");
        }
        to.labels[i] = static_cast<float>(value);
      },
      [&](int64_t i) {
        bad.Add(i, "the label '", label_->column, "' is null");
        to.labels[i] = 0;
      });
  if (weight_ != nullptr) {
    for_each(
        *weight_,
        [&](int64_t i, double value) {
          if (!std::isfinite(value) || value < 0) {
            bad.Add(i, "the weight '", weight_->column, "' is ", value,
                    ", not a number from 0 on");
          }
          to.weights[i] = static_cast<float>(value);
        },
        [&](int64_t i) {
          bad.Add(i, "the weight '", weight_->column, "' is null");
          to.weights[i] = 0;
        });
  }
  for (size_t d = 0; d < dense_.size(); ++d) {
    const FeatureList::Dense& feature = features_.dense()[d];
    float* const first = to.dense + d;
    const size_t stride = dense_.size();
    for_each(
        dense_[d],
        [&](int64_t i, double value) {
          const float result = Transformed(feature.transform, value);
          // log1p of -inf is finite, and yet no number was there.
          if (!std::isfinite(value) || !std::isfinite(result)) {
            bad.Add(i, "feature '", feature.name, "' is ", value);
          }
          first[i * stride] = result;
        },
        [&](int64_t i) { first[i * stride] = feature.null; });
  }
}

void BlockWriter::WriteKeys(const ArrowArray& batch,
                            const FeatureBlockArrays& to) {
  const auto num_rows = static_cast<int64_t>(shape_.num_rows);
  const size_t num_slots = slots_.size();
  if (group_ != nullptr) {
    FeatureList::Slot slot;
    slot.rows_of = group_->column;
    slot.number = 1;
    slot.type = features_.group_type();
    if (slot.type == v1::AS_IT_IS) {
      slot.type = group_->type.is_integer() ? v1::INTEGER : v1::STRING;
    }
    SlotColumn groups(slot);
    groups.Bind(*group_);
    groups.WriteIds(
        ColumnOf(*group_, batch), 0, num_rows, [](int64_t i) { return i; },
        to.groups);
  }
  if (has_sequences_) {
    uint32_t offset = 0;
    for (size_t cell = 0; cell < lengths_.size(); ++cell) {
      to.offsets[cell] = offset;
      offset += lengths_[cell];
    }
    to.offsets[lengths_.size()] = offset;
  }
  if (has_key_weights_) std::fill_n(to.key_weights, shape_.num_keys, 1.0f);
  std::vector<Column> columns;
  for (const std::unique_ptr<SlotColumn>& slot : slots_) {
    columns.push_back(ColumnOf(slot->place(), batch));
  }
  for (int64_t begin = 0; begin < num_rows; begin += kTileRows) {
    const int64_t end = std::min(num_rows, begin + kTileRows);
    for (size_t s = 0; s < num_slots; ++s) {
      SlotColumn& slot = *slots_[s];
      const auto cell_of = [&](int64_t i) { return i * num_slots + s; };
      if (!has_sequences_) {
        slot.WriteIds(columns[s], begin, end, cell_of, to.keys);
        continue;
      }
      const auto offset_of = [&](int64_t i) { return to.offsets[cell_of(i)]; };
      if (!slot.slot().is_sequence) {
        slot.WriteIds(columns[s], begin, end, offset_of, to.keys);
        continue;
      }
      slot.WriteElements(columns[s], begin, end, offset_of, to.keys);
      if (!has_key_weights_ ||
          slot.slot().pooling != v1::SequenceFeature::MEAN) {
        continue;
      }
      for (int64_t i = begin; i < end; ++i) {
        const uint32_t length = lengths_[cell_of(i)];
        std::fill_n(to.key_weights + offset_of(i), length,
                    1.0f / static_cast<float>(std::max(length, 1u)));
      }
    }
  }
}

}  // namespace oarlock::data
