// The script for bash is run by bash.

#include "cli/text/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/base/test_folder.h"

namespace oarlock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<flags::CommandText> TwoCommands() {
  flags::CommandText train;
  train.syntax.name = "oarlock train";
  train.syntax.description = "Trains: well.";
  train.flags = {
      {"mode", {}, "TEXT", "G", "The [way] it's: done.", {"async", "sync"}},
      {"batch_size", {"batch"}, "N", "G", "Examples.", {}},
      {"resume", {}, "", "G", "Goes on.", {}}};
  flags::CommandText ctl;
  ctl.syntax.name = "oarlock ctl";
  ctl.syntax.first_words = {"status", "stop"};
  return {train, ctl};
}

// What bash offers for the last of the words.
std::vector<std::string> Offered(const std::vector<std::string>& words) {
  const TestFolder folder;
  std::string script = BashCompletion(TwoCommands()) + "COMP_WORDS=(";
  for (const std::string& word : words) {
    absl::StrAppend(&script, " '", word, "'");
  }
  absl::StrAppend(&script, ")\nCOMP_CWORD=", words.size() - 1,
                  "\n_oarlock\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
  const std::string command =
      absl::StrCat("bash -u '", folder.Write("script", script), "' 2>&1");
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[256];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  EXPECT_EQ(pclose(pipe), 0) << output;
  return absl::StrSplit(output, '\n', absl::SkipEmpty());
}

TEST(CompletionTest, BashOffersCommands) {
  EXPECT_THAT(Offered({"oarlock", "t"}), ElementsAre("train"));
  EXPECT_THAT(Offered({"oarlock", ""}),
              ElementsAre("train", "ctl", "--help", "--version"));
}

TEST(CompletionTest, BashOffersFlagsOfTheCommandAndTheirAliases) {
  EXPECT_THAT(Offered({"oarlock", "train", "--"}),
              ElementsAre("--mode", "--batch_size", "--batch", "--resume"));
  EXPECT_THAT(Offered({"oarlock", "train", "--resume", "--ba"}),
              ElementsAre("--batch_size", "--batch"));
  EXPECT_THAT(Offered({"oarlock", "ctl", "--"}), IsEmpty());
}

TEST(CompletionTest, BashOffersTheWordsThatAFlagTakes) {
  EXPECT_THAT(Offered({"oarlock", "train", "--mode", ""}),
              ElementsAre("async", "sync"));
  EXPECT_THAT(Offered({"oarlock", "train", "--mode", "s"}),
              ElementsAre("sync"));
}

TEST(CompletionTest, BashLeavesValuesThatNobodyKnowsToNamesOfFiles) {
  EXPECT_THAT(Offered({"oarlock", "train", "--batch_size", ""}), IsEmpty());
  EXPECT_THAT(Offered({"oarlock", "train", ""}), IsEmpty());
}

TEST(CompletionTest, BashOffersTheFirstWordOfACommandOnce) {
  EXPECT_THAT(Offered({"oarlock", "ctl", "st"}), ElementsAre("status", "stop"));
  EXPECT_THAT(Offered({"oarlock", "ctl", "status", "st"}), IsEmpty());
}

TEST(CompletionTest, ZshIsToldSentencesWithTheirBracketsEscaped) {
  const std::string script = ZshCompletion(TwoCommands());
  EXPECT_THAT(script, HasSubstr("'train:Trains\\: well.'"));
  EXPECT_THAT(script, HasSubstr("'--mode[The \\[way\\] it'\\''s\\: done.]"
                                ":TEXT:(async sync)'"));
  EXPECT_THAT(script, HasSubstr("'--batch[Examples.]:N:_files'"));
  EXPECT_THAT(script, HasSubstr("'--resume[Goes on.]'"));
  EXPECT_THAT(script, HasSubstr("'1:word:(status stop)'"));
}

}  // namespace
}  // namespace oarlock::cli
