#include "capi/leases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/types.h"

namespace oarlock::capi {
namespace {

data::ExampleRange ToRange(const v1::DataRange& range) {
  return {range.source(), range.begin(), range.end()};
}

}  // namespace

std::optional<v1::LeasedPart> Leases::Add(
    const std::string& phase_name, const WorkId& work, uint32_t epoch,
    const v1::LeaseRangesResponse& response) {
  Part part;
  part.phase_name = phase_name;
  part.work = work;
  part.epoch = epoch;
  v1::LeasedPart leased;
  if (response.push_completions_size() > 0) {
    const v1::PushCompletion& completion = response.push_completions(0);
    leased.set_lease(completion.lease());
    leased.set_repairs(true);
    part.repairs = true;
    for (const v1::DataRange& range : completion.examples()) {
      part.examples.push_back(ToRange(range));
    }
    for (const v1::DataRange& range : completion.dense_examples()) {
      part.dense_examples.push_back(ToRange(range));
    }
    if (completion.worker().worker_generation() != 0) {
      part.completes =
          PushStamp{WorkerIndex(completion.worker().worker_index()),
                    Generation(completion.worker().worker_generation()),
                    Sequence(completion.sequence())};
    }
  } else if (response.ranges_size() > 0 && response.leases_size() > 0) {
    leased.set_lease(response.leases(0));
    part.examples = part.dense_examples = {ToRange(response.ranges(0))};
  } else {
    return std::nullopt;
  }
  for (const data::ExampleRange& range :
       part.examples.empty() ? part.dense_examples : part.examples) {
    v1::LeasedPart::Range* const to = leased.add_ranges();
    to->set_begin(range.begin);
    to->set_end(range.end);
  }
  leased.set_rows(!part.examples.empty());
  leased.set_dense(!part.dense_examples.empty());
  parts_[leased.lease()] = std::move(part);
  return leased;
}

std::optional<v1::LeasedPart> Leases::TakeKept(const std::string& phase_name) {
  const auto kept = kept_.find(phase_name);
  if (kept == kept_.end() || kept->second.empty()) return std::nullopt;
  v1::LeasedPart part = kept->second.front();
  kept->second.pop_front();
  return part;
}

std::optional<Part> Leases::Take(uint64_t lease) {
  const auto found = parts_.find(lease);
  if (found == parts_.end()) return std::nullopt;
  Part part = std::move(found->second);
  parts_.erase(found);
  return part;
}

void Leases::SetDone(const std::string& phase_name, uint64_t lease) {
  done_[phase_name].push_back(lease);
}

std::vector<uint64_t> Leases::TakeDone(const std::string& phase_name) {
  const auto found = done_.find(phase_name);
  if (found == done_.end()) return {};
  std::vector<uint64_t> leases = std::move(found->second);
  done_.erase(found);
  return leases;
}

void Leases::ReturnDone(const std::string& phase_name,
                        const std::vector<uint64_t>& leases) {
  std::vector<uint64_t>& to = done_[phase_name];
  to.insert(to.end(), leases.begin(), leases.end());
}

std::vector<std::string> Leases::PhasesWithDone() const {
  std::vector<std::string> names;
  for (const auto& [name, leases] : done_) {
    if (!leases.empty()) names.push_back(name);
  }
  return names;
}

std::string Leases::PhaseName(const WorkId& work) const {
  std::string name = NameOf(work);
  const auto turns = turns_.find(name);
  if (turns != turns_.end()) absl::StrAppend(&name, "#", turns->second + 1);
  return name;
}

void Leases::GoOnWith(const std::string& phase_name) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(phase_name, absl::MaxSplits('#', 1));
  uint32_t turn = 0;
  if (!absl::SimpleAtoi(parts.second, &turn) || turn < 2) return;
  uint32_t& turns = turns_[parts.first];
  turns = std::max(turns, turn - 1);
}

}  // namespace oarlock::capi
