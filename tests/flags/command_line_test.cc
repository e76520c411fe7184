#include "flags/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "flags/config_file.h"
#include "flags/message_flags.h"
#include "proto/config/job_config.pb.h"
#include "proto/config/launch_config.pb.h"
#include "tests/base/test_folder.h"

namespace oarlock::flags {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const CommandSyntax kTrain{.name = "oarlock train",
                           .description = "Trains a model.",
                           .examples = "oarlock train --model lr",
                           .takes_config = true};
const CommandSyntax kLaunch{.name = "oarlock launch",
                            .description = "Starts a program.",
                            .examples = "",
                            .positionals = Positionals::kProgram,
                            .positional_names = "PROGRAM [ARGS...]"};

absl::StatusOr<ParsedCommandLine> Parse(const CommandSyntax& syntax,
                                        const std::vector<std::string>& args,
                                        v1::JobConfig* config) {
  return ParseCommandLine(syntax, args, {{config}});
}

std::string ErrorOf(const std::vector<std::string>& args,
                    const CommandSyntax& syntax = kTrain) {
  v1::JobConfig config;
  return std::string(Parse(syntax, args, &config).status().message());
}

std::string WriteFile(const std::string& text) {
  const std::string path = testing::TempDir() + "/job.textproto";
  std::ofstream(path) << text;
  return path;
}

TEST(CommandLineTest, EverySpellingOfAFlagSetsItsField) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{
           {"--batch_size", "7"},
           {"--batch_size=7"},
           {"--batch-size", "7"},
           {"--batch-size=7"},
           {"--batch_size=3", "--batch_size=7"}}) {
    v1::JobConfig config;
    ASSERT_TRUE(Parse(kTrain, args, &config).ok());
    EXPECT_EQ(config.batch_size(), 7);
  }
}

TEST(CommandLineTest, BooleansTakeAValueOrNone) {
  for (const auto& [args, expected] :
       std::vector<std::pair<std::vector<std::string>, bool>>{
           {{"--insecure"}, true},
           {{"--insecure", "--model", "lr"}, true},
           {{"--insecure", "True"}, true},
           {{"--insecure", "1"}, true},
           {{"--insecure=false"}, false},
           {{"--insecure", "0"}, false}}) {
    v1::JobConfig config;
    ASSERT_TRUE(Parse(kTrain, args, &config).ok());
    EXPECT_TRUE(config.has_insecure());
    EXPECT_EQ(config.insecure(), expected);
  }
}

TEST(CommandLineTest, ListsTakeCommasAndSeveralWords) {
  v1::JobConfig config;
  ASSERT_TRUE(Parse(kTrain,
                    {"--train_files", "a,b", "c", "--test_files=t",
                     "--train_files", "d"},
                    &config)
                  .ok());
  EXPECT_THAT(config.train_files(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(config.test_files(), ElementsAre("t"));
}

TEST(CommandLineTest, AListOfFilesKeepsTheCommaOfAFileThatExists) {
  const TestFolder folder;
  folder.Write("a,b", "");
  v1::JobConfig config;
  ASSERT_TRUE(
      Parse(kTrain, {"--train_files", folder.Path("a,b"), "c,d"}, &config)
          .ok());
  EXPECT_THAT(config.train_files(), ElementsAre(folder.Path("a,b"), "c", "d"));
}

TEST(CommandLineTest, AddressesOfStoresAreNoPaths) {
  const char* const kLine =
      "is \"s3://b/ck\"; s3:// is not read; it must be a path on this machine: "
      "mount the store, or copy from it and to it";
  for (const char* flag : {"--checkpoint_dir", "--log_dir", "--load",
                           "--tier_dir", "--token_file"}) {
    EXPECT_EQ(ErrorOf({flag, "s3://b/ck"}), absl::StrCat(flag, " ", kLine));
  }
  // Columns may be in a store, and a command may have an address in it.
  v1::JobConfig config;
  EXPECT_TRUE(Parse(kTrain, {"--train_files", "a,hdfs://n:1/b"}, &config).ok());
  EXPECT_TRUE(Parse(kTrain, {"--pipe_command", "curl http://a"}, &config).ok());
}

TEST(CommandLineTest, ValuesMayBeEmptyOrLookLikeFlags) {
  v1::JobConfig config;
  ASSERT_TRUE(
      Parse(kTrain, {"--token_file=", "--pipe_command", "--x y"}, &config)
          .ok());
  EXPECT_EQ(config.token_file(), "");
  EXPECT_EQ(config.pipe_command(), "--x y");
}

TEST(CommandLineTest, EverythingAfterTheProgramIsItsOwn) {
  v1::JobConfig config;
  auto parsed = Parse(
      kLaunch,
      {"--batch-size", "7", "prog", "--batch-size", "9", "--help", "--", "x"},
      &config);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->help.has_value());
  EXPECT_EQ(config.batch_size(), 7);
  EXPECT_THAT(parsed->positionals,
              ElementsAre("prog", "--batch-size", "9", "--help", "--", "x"));
  parsed = Parse(kLaunch, {"--insecure", "prog", "1"}, &config);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(config.insecure());
  EXPECT_THAT(parsed->positionals, ElementsAre("prog", "1"));
  parsed = Parse(kLaunch, {"--epochs", "2", "--", "--odd", "1"}, &config);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->positionals, ElementsAre("--odd", "1"));
}

TEST(CommandLineTest, WrongLinesSayWhatIsLegal) {
  EXPECT_EQ(ErrorOf({"--batch_siz", "7"}),
            "unknown flag --batch_siz (did you mean --batch_size?); see "
            "`oarlock train --help`");
  EXPECT_EQ(ErrorOf({"--xyzzy=3"}),
            "unknown flag --xyzzy; see `oarlock train --help`");
  EXPECT_EQ(ErrorOf({"--xyzzy", "prog"}, kLaunch),
            "unknown flag --xyzzy; see `oarlock launch --help`");
  EXPECT_EQ(ErrorOf({"-x"}), "unknown flag -x; see `oarlock train --help`");
  EXPECT_EQ(ErrorOf({"word"}),
            "unexpected word \"word\"; oarlock train takes only flags; see "
            "`oarlock train --help`");
  EXPECT_EQ(ErrorOf({"--epochs"}),
            "the flag --epochs needs a value; see `oarlock train --help`");
  EXPECT_EQ(ErrorOf({"--batch_size", "many"}),
            "--batch_size is \"many\"; it must be a whole number, 1 to "
            "1048576; for example --batch_size 512");
  EXPECT_EQ(ErrorOf({"--batch_size", "-1"}),
            "--batch_size is \"-1\"; it must be a whole number, 1 to "
            "1048576; for example --batch_size 512");
  EXPECT_EQ(ErrorOf({"--batch_size", "99999999999"}),
            "--batch_size is \"99999999999\"; it must be a whole number, 1 to "
            "1048576; for example --batch_size 512");
  EXPECT_EQ(ErrorOf({"--learning_rate", "nan"}),
            "--learning_rate is \"nan\"; it must be a number, 0 to 1000; for "
            "example --learning_rate 0.01");
  EXPECT_EQ(ErrorOf({"--mode", "half"}),
            "--mode is \"half\"; it must be async, half_async, ssp, sync or "
            "geo; for example --mode "
            "async");
  EXPECT_EQ(ErrorOf({"--insecure=maybe"}),
            "--insecure is \"maybe\"; it must be true or false; for example "
            "--insecure false");
}

TEST(CommandLineTest, FlagsOverrideTheFileWhereverTheyStand) {
  const std::string path =
      WriteFile("batch_size: 5\nepochs: 6\ntrain_files: \"f\"\n");
  v1::JobConfig config;
  auto parsed = Parse(
      kTrain, {"--epochs=7", "--config", path, "--train_files=g"}, &config);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(config.batch_size(), 5);
  EXPECT_EQ(config.epochs(), 7);
  EXPECT_THAT(config.train_files(), ElementsAre("g"));
}

TEST(CommandLineTest, TheFileFillsEveryMessageOfTheCommand) {
  const std::string path =
      WriteFile("batch_size: 5\nserver_num: 3\nepochs: 6\n");
  for (const char* flag : {"--config", "-c"}) {
    v1::JobConfig config;
    v1::LaunchConfig launch;
    const auto parsed = ParseCommandLine(kTrain, {flag, path, "--epochs", "7"},
                                         {{&config}, {&launch}});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(config.batch_size(), 5);
    EXPECT_EQ(config.epochs(), 7);
    EXPECT_EQ(launch.server_num(), 3);
  }
}

TEST(CommandLineTest, AFieldThatNoMessageHasIsRefusedAndNothingIsSet) {
  v1::JobConfig config;
  v1::LaunchConfig launch;
  const auto error_of = [&](const std::string& text) {
    const absl::Status status =
        ParseTextproto("file", text, {&config, &launch});
    EXPECT_FALSE(config.has_batch_size());
    EXPECT_FALSE(launch.has_server_num());
    return std::string(status.message());
  };
  EXPECT_THAT(error_of("batch_size: 5\nserver_num: 3\nserver_nun: 2\n"),
              testing::AllOf(HasSubstr("file:3: "),
                             HasSubstr("did you mean server_num?")));
  EXPECT_THAT(error_of("server_num: 3\nbatch_size: 0\n"),
              HasSubstr("file:2: --batch_size is"));
  EXPECT_THAT(error_of("batch_size: 5\nserver_num: -7\n"),
              HasSubstr("file:2: --server_num is"));
  EXPECT_THAT(error_of("server_num: 3\nbatch_size: }\n"),
              HasSubstr("file:2: "));
}

TEST(CommandLineTest, WrongFilesNameFileAndLine) {
  v1::JobConfig config;
  std::string path = WriteFile("epochs: 6\nbatchsize: 3\n");
  EXPECT_THAT(std::string(LoadTextproto(path, &config).message()),
              HasSubstr("job.textproto:2: there is no flag \"batchsize\"; did "
                        "you mean batch_size?"));
  path = WriteFile("epochs: 6\n\nbatch_size: 0\n");
  EXPECT_THAT(std::string(LoadTextproto(path, &config).message()),
              HasSubstr("job.textproto:3: --batch_size is \"0\"; it must be a "
                        "whole number, 1 to 1048576"));
  EXPECT_FALSE(config.has_batch_size());
  EXPECT_EQ(LoadTextproto(path + ".absent", &config).code(),
            absl::StatusCode::kNotFound);
}

TEST(CommandLineTest, LineBreaksInWhatIsWrongAreShownAndNotMade) {
  v1::JobConfig config;
  const std::string path = WriteFile("model: \"a\\nb\"\n");
  EXPECT_THAT(std::string(LoadTextproto(path, &config).message()),
              HasSubstr("--model is \"a\\nb\""));
  const auto parsed = Parse(kTrain, {"--mo\r\ndel=x"}, &config);
  EXPECT_THAT(std::string(parsed.status().message()),
              HasSubstr("unknown flag --mo\\r\\ndel"));
}

TEST(CommandLineTest, AFlagOfTwoMessagesIsSetInBoth) {
  v1::JobConfig one, two;
  ASSERT_TRUE(
      ParseCommandLine(kTrain, {"--epochs", "3"}, {{&one}, {&two}}).ok());
  EXPECT_EQ(one.epochs(), 3);
  EXPECT_EQ(two.epochs(), 3);
}

TEST(CommandLineTest, OnlyTheNamedFieldsAreFlags) {
  v1::JobConfig config;
  EXPECT_TRUE(
      ParseCommandLine(kTrain, {"--epochs", "3"}, {{&config, {"epochs"}}})
          .ok());
  EXPECT_FALSE(
      ParseCommandLine(kTrain, {"--batch_size", "3"}, {{&config, {"epochs"}}})
          .ok());
}

TEST(CommandLineTest, HelpShowsDefaultsRangesAndExamples) {
  v1::JobConfig config;
  auto parsed = Parse(kTrain, {"--bogus", "--help"}, &config);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_TRUE(parsed->help.has_value());
  EXPECT_THAT(*parsed->help, HasSubstr("--batch_size N"));
  EXPECT_THAT(*parsed->help, HasSubstr("[default 512; 1 to 1048576]"));
  EXPECT_THAT(*parsed->help, HasSubstr("--config FILE"));
  EXPECT_THAT(*parsed->help, HasSubstr("Examples:\n  oarlock train --model"));
  EXPECT_THAT(*parsed->help, HasSubstr("\nOptimizer:\n"));
}

TEST(CommandLineTest, HelpShowsTheProgramsOwnDefaults) {
  v1::JobConfig config;
  config.set_batch_size(100);
  config.set_learning_rate(1e-4);
  config.add_train_files("raw_data/part-*");
  const std::string help = HelpText(kTrain, {{&config}});
  EXPECT_THAT(help, HasSubstr("[default 100; 1 to 1048576]"));
  EXPECT_THAT(help, HasSubstr("[default 0.0001; 0 to 1000]"));
  EXPECT_THAT(help, HasSubstr("[default raw_data/part-*]"));
}

TEST(CommandLineTest, ExitCodesAreTwoForUsageAndZeroForHelp) {
  v1::JobConfig config;
  EXPECT_EQ(FinishEarly(kTrain, Parse(kTrain, {"--bogus"}, &config)), 2);
  EXPECT_EQ(FinishEarly(kTrain, Parse(kTrain, {"-h"}, &config)), 0);
  EXPECT_EQ(FinishEarly(kTrain, Parse(kTrain, {}, &config)), std::nullopt);
}

TEST(CommandLineTest, TheTableHasOneRowForEachFlag) {
  const std::string table = MarkdownTable(v1::JobConfig::descriptor());
  EXPECT_THAT(table,
              HasSubstr("| `--batch_size` | `512` | a whole number, 1 to "
                        "1048576 | Examples of a step of one thread. |\n"));
  EXPECT_THAT(table, Not(HasSubstr("\n\n")));
}

}  // namespace
}  // namespace oarlock::flags
