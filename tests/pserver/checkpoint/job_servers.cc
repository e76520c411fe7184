#include "tests/pserver/checkpoint/job_servers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_diff.h"
#include "checkpoint/checkpoint_rows.h"
#include "pserver/checkpoint/part_loader.h"
#include "storage/checkpoint_dir.h"

namespace oarlock::pserver {
namespace {

constexpr int kNumThreads = 2;
constexpr size_t kMaxDifferences = 3;

wire::SlicedBytes Floats(const std::vector<float>& values) {
  std::vector<char> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return wire::SlicedBytes(std::move(bytes));
}

PushDone CountInto(uint32_t* num_duplicates) {
  return [num_duplicates](absl::StatusOr<PushOutcome> outcome) {
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    *num_duplicates += outcome->duplicate_groups;
  };
}

}  // namespace

JobServers::Server::Server(const cluster::PartitionMap& map, ServerIndex index,
                           const std::string& directory)
    : registry(map, index, clock) {
  auto made = storage::CheckpointStore::Create(
      {.directory = absl::StrCat(directory, "/store/",
                                 checkpoint::ServerFolderName(index.value()))});
  EXPECT_TRUE(made.ok()) << made.status();
  store = *std::move(made);
  writer = std::make_unique<PartWriter>(&map, index, &registry, store.get(),
                                        kNumThreads, clock);
}

JobServers::JobServers(std::string directory, uint32_t num_servers)
    : directory_(std::move(directory)),
      map_(cluster::PartitionMap::Even(1u << kTestPartitionBits, num_servers)) {
  for (uint32_t i = 0; i < num_servers; ++i) {
    servers_.push_back(
        std::make_unique<Server>(map_, ServerIndex(i), directory_));
  }
}

JobServers::~JobServers() {
  for (const auto& server : servers_) server->registry.Shutdown();
}

absl::Status JobServers::Create(const v1::TableConfig& config) {
  tables_.push_back(config);
  for (const auto& server : servers_) {
    OARLOCK_RETURN_IF_ERROR(server->registry.Create(config));
  }
  return absl::OkStatus();
}

absl::Status JobServers::Load(const checkpoint::LoadedCheckpoint& checkpoint,
                              bool parameters_only) {
  tables_.assign(checkpoint.manifest.tables().begin(),
                 checkpoint.manifest.tables().end());
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    PartLoaderOptions options;
    options.folder = checkpoint.folder;
    options.server = ServerIndex(i);
    options.num_threads = kNumThreads;
    options.parameters_only = parameters_only;
    OARLOCK_RETURN_IF_ERROR(
        LoadPart(checkpoint.manifest, options, map_, &servers_[i]->registry));
  }
  return absl::OkStatus();
}

uint32_t JobServers::PushSparse(TableId table, uint64_t sequence,
                                const SparseGradients& gradients) {
  uint32_t num_duplicates = 0;
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    SparseGradients share;
    for (const auto& [key, gradient] : gradients) {
      if (map_.Owner(map_.PartitionOf(key)).value() == i) share[key] = gradient;
    }
    TableEntry& to = entry(i, table);
    wire::PushSparseRequestView push =
        SparsePushOf(PushHeader(0, 1, sequence), share);
    push.table = table;
    if (to.config.sparse().accessor() == v1::CTR) {
      std::vector<Key> keys(push.num_keys);
      push.keys.CopyTo(0, keys.size() * sizeof(Key), keys.data());
      std::vector<float> clicks;
      for (const Key key : keys) {
        clicks.push_back(static_cast<uint64_t>(key) % 3 == 0 ? 1 : 0);
      }
      push.shows = Floats(std::vector<float>(keys.size(), 1));
      push.clicks = Floats(clicks);
    }
    to.aggregator->PushSparse(std::move(push), CountInto(&num_duplicates));
  }
  return num_duplicates;
}

uint32_t JobServers::PushDense(TableId table, uint64_t sequence,
                               const DenseGradients& gradients) {
  uint32_t num_duplicates = 0;
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    TableEntry& to = entry(i, table);
    DenseGradients share;
    for (const auto& [block, gradient] : gradients) {
      if (to.dense->Owns(block)) share[block] = gradient;
    }
    if (share.empty()) continue;
    wire::PushDenseRequestView push =
        DensePushOf(PushHeader(0, 1, sequence), share);
    push.table = table;
    push.num_steps = 1;
    to.aggregator->PushDense(std::move(push), CountInto(&num_duplicates));
  }
  return num_duplicates;
}

absl::Status JobServers::Save(uint64_t cut) {
  OARLOCK_ASSIGN_OR_RETURN(
      storage::CheckpointDir dir,
      storage::CheckpointDir::Create(storage::FileSystem::Real(), directory_));
  OARLOCK_ASSIGN_OR_RETURN(const std::string folder, dir.Begin(cut));
  v1::CheckpointManifest manifest;
  manifest.set_format_version(checkpoint::kCheckpointFormatVersion);
  manifest.set_job_id("test");
  manifest.set_cut(cut);
  manifest.set_previous_cut(last_cut_);
  manifest.set_num_partitions(map_.num_partitions());
  manifest.set_next_generation(9);
  for (const v1::TableConfig& table : tables_) *manifest.add_tables() = table;
  for (const auto& server : servers_) server->writer->Freeze(cut);
  for (const auto& server : servers_) {
    OARLOCK_ASSIGN_OR_RETURN(*manifest.add_servers(),
                             server->writer->Save(folder));
  }
  OARLOCK_RETURN_IF_ERROR(
      dir.Commit(cut, checkpoint::FormatManifest(manifest)));
  for (const auto& server : servers_) server->writer->Thaw(/*current=*/true);
  last_cut_ = cut;
  return absl::OkStatus();
}

checkpoint::OpenCheckpoint OpenCurrent(const std::string& directory) {
  auto loaded =
      checkpoint::LoadCheckpoint(storage::FileSystem::Real(), directory);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  auto open = checkpoint::VerifyAndOpen(storage::FileSystem::Real(),
                                        *std::move(loaded), kNumThreads);
  EXPECT_TRUE(open.ok()) << open.status();
  const absl::Status sound = checkpoint::VerifyTables(*open);
  EXPECT_TRUE(sound.ok()) << sound;
  return *std::move(open);
}

std::vector<std::string> Differences(const std::string& a,
                                     const std::string& b) {
  const auto differences = checkpoint::DiffCheckpoints(
      OpenCurrent(a), OpenCurrent(b), kMaxDifferences);
  EXPECT_TRUE(differences.ok()) << differences.status();
  return *differences;
}

}  // namespace oarlock::pserver
