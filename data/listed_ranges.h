// Ranges that are known from the start.

#ifndef OARLOCK_DATA_LISTED_RANGES_H_
#define OARLOCK_DATA_LISTED_RANGES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/range_source.h"

namespace oarlock::data {

// Exactly these ranges, in their order. For one reader.
class ListedRanges : public RangeSource {
 public:
  explicit ListedRanges(const std::vector<DataRange>& items) : items_(items) {}
  absl::StatusOr<std::optional<DataRange>> Next() override {
    if (next_ == items_.size()) return std::nullopt;
    return items_[next_++];
  }
  void Done(const DataRange&) override {}

 private:
  const std::vector<DataRange> items_;
  size_t next_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_LISTED_RANGES_H_
