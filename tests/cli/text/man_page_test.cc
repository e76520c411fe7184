#include "cli/text/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace oarlock::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Page() {
  flags::CommandText command;
  command.syntax.name = "oarlock explain-env";
  command.syntax.description = "Explains\nit.";
  command.syntax.examples = "  oarlock explain-env\n.begins 'it' a\\b\n";
  command.flags = {
      {"role", {"as"}, "TEXT", "Role", ".5 is a role-like number.", {}},
      {"help", {}, "", "Other", "Prints this.", {}}};
  return ManPage({command}, "1.2.3");
}

TEST(ManPageTest, SaysWhichProgramItIsOf) {
  EXPECT_THAT(Page(), StartsWith(".TH OARLOCK 1 \"\" \"oarlock 1.2.3\""));
}

TEST(ManPageTest, TellsEachCommandWithItsFlagsByGroup) {
  EXPECT_THAT(Page(), HasSubstr(".SS \"oarlock explain\\-env\"\n"
                                "Explains it.\n"));
  EXPECT_THAT(Page(), HasSubstr(".PP\n\\fBRole\\fR\n"
                                ".TP\n\\fB\\-\\-role\\fR \\fITEXT\\fR, "
                                "\\fB\\-\\-as\\fR\n"));
  EXPECT_THAT(Page(), HasSubstr(".PP\n\\fBOther\\fR\n"
                                ".TP\n\\fB\\-\\-help\\fR\nPrints this.\n"));
}

TEST(ManPageTest, TextIsNeverARequestOfRoff) {
  EXPECT_THAT(Page(), HasSubstr("\n\\&.5 is a role\\-like number.\n"));
  EXPECT_THAT(Page(), HasSubstr("\n\\&.begins \\(aqit\\(aq a\\eb\n.fi\n"));
}

}  // namespace
}  // namespace oarlock::cli
