// The tables of docs/configuration.md are what the code says: of a message's
// flags, or of the environment's variables.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cluster/environment.h"
#include "flags/message_flags.h"
#include "proto/config/checkpoint_config.pb.h"
#include "proto/config/ctl_config.pb.h"
#include "proto/config/generate_config.pb.h"
#include "proto/config/infer_config.pb.h"
#include "proto/config/job_config.pb.h"
#include "proto/config/launch_config.pb.h"
#include "proto/config/quickstart_config.pb.h"
#include "proto/config/rendezvous_config.pb.h"
#include "proto/config/train_config.pb.h"
#include "tests/fleet/document_tables.h"

namespace oarlock::flags {
namespace {

constexpr char kDocument[] = "docs/configuration.md";

std::string EnvironmentTable() {
  std::string table = "| variable | of | meaning |\n| --- | --- | --- |\n";
  for (const cluster::EnvironmentVariable& variable :
       cluster::EnvironmentVariables()) {
    absl::StrAppend(&table, "| `", variable.name, "` | ", variable.generation,
                    " | ", variable.meaning, " |\n");
  }
  return table;
}

DocumentTables Tables() {
  DocumentTables tables = {{"environment", EnvironmentTable()}};
  for (const google::protobuf::Descriptor* type :
       {v1::JobConfig::descriptor(), v1::TrainConfig::descriptor(),
        v1::RoleConfig::descriptor(), v1::LaunchConfig::descriptor(),
        v1::RendezvousConfig::descriptor(), v1::GenerateConfig::descriptor(),
        v1::CtlConfig::descriptor(), v1::CheckpointConfig::descriptor(),
        v1::InferConfig::descriptor(), v1::QuickstartConfig::descriptor()}) {
    tables[type->full_name()] = MarkdownTable(type);
  }
  return tables;
}

TEST(ConfigurationDocTest, EveryTableIsWhatTheCodeSays) {
  const std::string document = ReadDocument(kDocument);
  ASSERT_FALSE(document.empty());
  std::vector<std::string> missing;
  const std::string expected = WithTables(document, Tables(), &missing);
  EXPECT_TRUE(missing.empty()) << missing.front() << " has no place";
  EXPECT_EQ(document, expected)
      << "run `bazel run //tests/flags:configuration_doc_test -- "
         "--write`";
}

}  // namespace
}  // namespace oarlock::flags

int main(int argc, char** argv) {
  return oarlock::DocumentTestMain(argc, argv, oarlock::flags::kDocument,
                                   oarlock::flags::Tables());
}
