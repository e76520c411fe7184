// Work that is known from the start.

#ifndef OARLOCK_DATA_LISTED_WORK_H_
#define OARLOCK_DATA_LISTED_WORK_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/work_source.h"

namespace oarlock::data {

// Exactly these ranges, in their order. For one reader.
class ListedWork : public WorkSource {
 public:
  explicit ListedWork(const std::vector<WorkItem>& items) : items_(items) {}
  absl::StatusOr<std::optional<WorkItem>> Next() override {
    if (next_ == items_.size()) return std::nullopt;
    return items_[next_++];
  }
  void Done(const WorkItem&) override {}

 private:
  const std::vector<WorkItem> items_;
  size_t next_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_LISTED_WORK_H_
