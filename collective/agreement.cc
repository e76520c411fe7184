#include "collective/agreement.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace oarlock::collective {

absl::StatusOr<std::vector<std::string>> AllGatherText(
    Communicator& communicator, absl::string_view mine) {
  const uint64_t size = mine.size();
  std::vector<uint64_t> sizes(communicator.size());
  OARLOCK_RETURN_IF_ERROR(communicator.AllGather(absl::MakeConstSpan(&size, 1),
                                                 absl::MakeSpan(sizes)));
  const uint64_t longest = *std::max_element(sizes.begin(), sizes.end());
  if (longest == 0) return std::vector<std::string>(sizes.size());
  // All as long as the longest.
  std::string padded(mine);
  padded.resize(longest);
  std::string all(longest * sizes.size(), '\0');
  OARLOCK_RETURN_IF_ERROR(
      communicator.AllGather(absl::MakeConstSpan(padded.data(), padded.size()),
                             absl::MakeSpan(all.data(), all.size())));
  std::vector<std::string> texts;
  for (const uint64_t text_size : sizes) {
    texts.push_back(all.substr(texts.size() * longest, text_size));
  }
  return texts;
}

absl::Status CheckAllCan(Communicator& communicator, const absl::Status& mine) {
  // Empty: can.
  const std::string text = mine.ok() ? "" : absl::StrCat(": ", mine.message());
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           AllGatherText(communicator, text));
  const auto first = std::find_if(texts.begin(), texts.end(),
                                  [](const auto& t) { return !t.empty(); });
  if (first == texts.end()) return absl::OkStatus();
  // Whoever gives up ends the group, so not before all know why.
  communicator.Barrier().IgnoreError();
  OARLOCK_RETURN_IF_ERROR(mine);
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", first - texts.begin(), *first));
}

}  // namespace oarlock::collective
