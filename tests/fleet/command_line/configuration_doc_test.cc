// The tables of docs/configuration.md are what the code says. Between
// "<!-- table: NAME -->" and "<!-- end -->" stands the table of a message's
// flags, or of the environment's variables.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cluster/environment.h"
#include "fleet/command_line/message_flags.h"
#include "proto/ctl_config.pb.h"
#include "proto/generate_config.pb.h"
#include "proto/job_config.pb.h"
#include "proto/launch_config.pb.h"
#include "proto/train_config.pb.h"

namespace oarlock {
namespace {

constexpr char kDocument[] = "docs/configuration.md";
constexpr char kEnd[] = "<!-- end -->";

std::string EnvironmentTable() {
  std::string table = "| variable | of | meaning |\n| --- | --- | --- |\n";
  for (const EnvironmentVariable& variable : EnvironmentVariables()) {
    absl::StrAppend(&table, "| `", variable.name, "` | ", variable.generation,
                    " | ", variable.meaning, " |\n");
  }
  return table;
}

std::map<std::string, std::string> Tables() {
  std::map<std::string, std::string> tables = {
      {"environment", EnvironmentTable()}};
  for (const google::protobuf::Descriptor* type :
       {v1::JobConfig::descriptor(), v1::TrainConfig::descriptor(),
        v1::RoleConfig::descriptor(), v1::LaunchConfig::descriptor(),
        v1::GenerateConfig::descriptor(), v1::CtlConfig::descriptor()}) {
    tables[type->full_name()] = MarkdownTable(type);
  }
  return tables;
}

// The document with every table replaced; `missing` gets the names of those
// without a place.
std::string WithTables(std::string document,
                       std::vector<std::string>* missing) {
  for (const auto& [name, table] : Tables()) {
    const std::string begin = absl::StrCat("<!-- table: ", name, " -->\n");
    const size_t at = document.find(begin);
    const size_t end = at == std::string::npos ? at : document.find(kEnd, at);
    if (end == std::string::npos) {
      missing->push_back(name);
      continue;
    }
    document.replace(at + begin.size(), end - at - begin.size(), table);
  }
  return document;
}

std::string ReadDocument(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ConfigurationDocTest, EveryTableIsWhatTheCodeSays) {
  const std::string document = ReadDocument(kDocument);
  ASSERT_FALSE(document.empty());
  std::vector<std::string> missing;
  const std::string expected = WithTables(document, &missing);
  EXPECT_TRUE(missing.empty()) << missing.front() << " has no place";
  EXPECT_EQ(document, expected)
      << "run `bazel run //tests/fleet/command_line:configuration_doc_test -- "
         "--write`";
}

int Write() {
  const char* root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  const std::string path =
      absl::StrCat(root == nullptr ? "." : root, "/", kDocument);
  std::vector<std::string> missing;
  const std::string document = WithTables(ReadDocument(path), &missing);
  if (document.empty() || !missing.empty()) return 1;
  std::ofstream(path) << document;
  return 0;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--write") return oarlock::Write();
  return RUN_ALL_TESTS();
}
