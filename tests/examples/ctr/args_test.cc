#include "examples/ctr/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fleet/fleet.h"

namespace ctr {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Args> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseArgs(static_cast<int>(argv.size()), argv.data());
}

// What the job's transform is, and what is said of it; empty when it is legal.
struct Outcome {
  std::string transform;
  std::string message;
};

Outcome OutcomeOf(const std::vector<std::string>& words) {
  const absl::StatusOr<Args> args = Parse(words);
  EXPECT_TRUE(args.ok()) << args.status();
  if (!args.ok()) return {};
  const absl::Status status =
      oarlock::Fleet::CheckConfig(args->config, /*num_servers=*/0);
  return {args->config.dense_transform(), std::string(status.message())};
}

void ExpectLegal(const std::vector<std::string>& words,
                 const std::string& transform) {
  const Outcome outcome = OutcomeOf(words);
  EXPECT_EQ(outcome.transform, transform);
  EXPECT_EQ(outcome.message, "");
}

TEST(CtrArgsTest, TheQuickStartsConstantsGoWithCriteosLines) {
  ExpectLegal({}, "quick_start");
  ExpectLegal({"--data_format", "criteo"}, "quick_start");
  ExpectLegal({"--pipe_command", "cat", "--data_format", "criteo"},
              "quick_start");
  ExpectLegal({"--dense_transform", "log1p"}, "log1p");
  ExpectLegal({"--dense_transform", "bucket"}, "bucket");
}

TEST(CtrArgsTest, OtherLinesHaveNone) {
  ExpectLegal({"--data_format", "libsvm"}, "log1p");
  ExpectLegal({"--data_format", "multi_slot"}, "log1p");
  ExpectLegal({"--pipe_command", "cat"}, "log1p");
}

TEST(CtrArgsTest, ATransformThatIsAskedForOfOtherLinesIsRefused) {
  for (const char* transform : {"quick_start", "bucket"}) {
    for (const char* format : {"libsvm", "multi_slot"}) {
      const Outcome outcome =
          OutcomeOf({"--data_format", format, "--dense_transform", transform});
      EXPECT_THAT(outcome.message,
                  HasSubstr(std::string("--dense_transform is ") + transform +
                            ", but --data_format is " + format));
    }
    EXPECT_THAT(
        OutcomeOf({"--pipe_command", "cat", "--dense_transform", transform})
            .message,
        HasSubstr("--data_format is multi_slot, the default with a "
                  "--pipe_command"));
  }
}

TEST(CtrArgsTest, HelpNamesTheConstantsAsTheDefault) {
  const absl::StatusOr<Args> args = Parse({"--help"});
  ASSERT_TRUE(args.ok()) << args.status();
  ASSERT_TRUE(args->help.has_value());
  EXPECT_THAT(*args->help, HasSubstr("[default quick_start;"));
}

}  // namespace
}  // namespace ctr
