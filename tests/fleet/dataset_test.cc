// Fleet's dataset calls in a job of several processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "checkpoint/checkpoint_rows.h"
#include "checkpoint/manifest.h"
#include "sparse_table/rows/packed_rows.h"
#include "storage/file_system.h"
#include "tests/base/test_folder.h"
#include "tests/collective/group_testing.h"
#include "tests/launch/process_testing.h"

namespace oarlock {
namespace {

using ::testing::ContainsRegex;

constexpr char kDatasetMain[] = "tests/fleet/dataset_main";
constexpr uint32_t kNumWorkers = 2;
constexpr uint64_t kExamples = 2000;

// Of each key of a checkpoint of rows with statistics, in how many examples it
// was trained.
absl::StatusOr<std::map<uint64_t, float>> ShowsOf(const std::string& folder) {
  storage::FileSystem* const files = storage::FileSystem::Real();
  OARLOCK_ASSIGN_OR_RETURN(checkpoint::LoadedCheckpoint loaded,
                           checkpoint::LoadCheckpoint(files, folder));
  OARLOCK_ASSIGN_OR_RETURN(
      const checkpoint::OpenCheckpoint open,
      checkpoint::VerifyAndOpen(files, std::move(loaded), /*num_threads=*/1));
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  OARLOCK_ASSIGN_OR_RETURN(const size_t place,
                           checkpoint::FindSparseTable(manifest, "embedding"));
  std::map<uint64_t, float> shows;
  for (uint32_t p = 0; p < manifest.num_partitions(); ++p) {
    OARLOCK_ASSIGN_OR_RETURN(
        const checkpoint::PartitionRows rows,
        checkpoint::PartitionRows::Read(open, place, PartitionIndex(p)));
    for (const auto& [key, packed] : rows.rows()) {
      std::memcpy(&shows[static_cast<uint64_t>(key)],
                  packed + sparse_table::PackedRows::kHeaderBytes,
                  sizeof(float));
    }
  }
  return shows;
}

TEST(FleetDatasetTest, AGloballyShuffledEpochHasEachExampleOnceAndIsReleased) {
  const TestFolder test_folder;
  const std::string& folder = test_folder.path();
  // Example i has key i and nothing else.
  std::string text;
  for (uint64_t i = 0; i < kExamples; ++i) {
    absl::StrAppend(&text, i % 2, " ", i, ":1\n");
  }
  const std::string train_file = folder + "/train";
  launch::WriteFile(train_file, text);
  const std::string endpoint = collective::FreeEndpoints(1)[0];
  const size_t colon = endpoint.rfind(':');
  std::map<std::string, std::string> environment = {
      {"PADDLE_PSERVERS_IP_PORT_LIST", endpoint},
      {"PADDLE_TRAINERS_NUM", absl::StrCat(kNumWorkers)},
      {"TRAINING_ROLE", "PSERVER"},
      {"POD_IP", endpoint.substr(0, colon)},
      {"PADDLE_PORT", endpoint.substr(colon + 1)}};
  const std::vector<std::string> argv = {kDatasetMain, train_file, folder};
  launch::TestProcess server(argv, environment, folder);
  environment["TRAINING_ROLE"] = "TRAINER";
  std::vector<std::unique_ptr<launch::TestProcess>> workers;
  for (uint32_t w = 0; w < kNumWorkers; ++w) {
    environment["PADDLE_TRAINER_ID"] = absl::StrCat(w);
    workers.push_back(
        std::make_unique<launch::TestProcess>(argv, environment, folder));
  }
  for (const auto& worker : workers) {
    ASSERT_EQ(worker->Wait(), 0) << worker->Output();
    EXPECT_THAT(worker->Output(),
                ContainsRegex("loaded [1-9][0-9]* shuffled [1-9][0-9]* trained "
                              "[1-9][0-9]* released 0\n"));
  }
  EXPECT_EQ(server.Wait(), 0) << server.Output();
  const auto shows = ShowsOf(folder + "/checkpoints");
  ASSERT_TRUE(shows.ok()) << shows.status();
  std::map<uint64_t, float> once;
  for (uint64_t i = 0; i < kExamples; ++i) once[i] = 1;
  EXPECT_EQ(*shows, once);
}

}  // namespace
}  // namespace oarlock
