#include "collective/agreement.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/collective/group_testing.h"

namespace oarlock::collective {
namespace {

std::vector<absl::Status> OnThreeRanks(
    const std::function<absl::Status(Communicator&)>& work) {
  return RunRanks(Backends()[0], 3, work);
}

TEST(AgreementTest, TextsOfAnyLengthComeToAllInOrderOfRanks) {
  const std::vector<std::vector<std::string>> cases = {
      {"", "", ""},
      {"", "a", ""},
      {"zero", "", std::string("t\0wo", 4)},
      {"short", std::string(100000, 'x'), std::string("\0", 1)}};
  for (const std::vector<std::string>& texts : cases) {
    for (const absl::Status& status :
         OnThreeRanks([&](Communicator& communicator) -> absl::Status {
           OARLOCK_ASSIGN_OR_RETURN(
               const std::vector<std::string> all,
               AllGatherText(communicator, texts[communicator.rank()]));
           EXPECT_EQ(all, texts);
           return absl::OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(AgreementTest, WhoCannotKeepsItsErrorAndTheOthersHaveItsWords) {
  for (const absl::Status& status : OnThreeRanks(
           [](Communicator& c) { return CheckAllCan(c, absl::OkStatus()); })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  // The group lives on.
  const auto after = [](Communicator& c) -> absl::Status {
    const absl::Status mine =
        c.rank() == 0
            ? absl::OkStatus()
            : absl::UnavailableError(absl::StrCat("no GPU at ", c.rank()));
    const absl::Status status = CheckAllCan(c, mine);
    EXPECT_EQ(status, c.rank() == 0
                          ? absl::FailedPreconditionError("rank 1: no GPU at 1")
                          : mine);
    return c.Barrier();
  };
  for (const absl::Status& status : OnThreeRanks(after)) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Whoever gives up ends the group: the others must have its words by then.
TEST(AgreementTest, AllKnowWhyWhenTheRankThatCannotGivesUpAtOnce) {
  for (int turn = 0; turn < 30; ++turn) {
    const auto statuses = OnThreeRanks([](Communicator& c) {
      return CheckAllCan(c, c.rank() == 1 ? absl::UnavailableError("no GPU")
                                          : absl::OkStatus());
    });
    EXPECT_EQ(statuses[1], absl::UnavailableError("no GPU"));
    for (const int rank : {0, 2}) {
      EXPECT_EQ(statuses[rank],
                absl::FailedPreconditionError("rank 1: no GPU"));
    }
  }
}

}  // namespace
}  // namespace oarlock::collective
