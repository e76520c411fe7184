#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "checkpoint/checkpoint_rows.h"
#include "tests/pserver/checkpoint/checkpoint_maker.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 29;

class ManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    RandomSequence random(kSeed);
    const absl::Status made = maker_.Make(42, pserver::RandomJob(300, random));
    ASSERT_TRUE(made.ok()) << made;
  }

  absl::Status Open() {
    auto loaded = LoadCheckpoint(storage::FileSystem::Real(), maker_.path());
    if (!loaded.ok()) return loaded.status();
    return VerifyAndOpen(storage::FileSystem::Real(), *std::move(loaded), 2)
        .status();
  }

  pserver::CheckpointMaker maker_{storage::FreshFolder("manifest"), 3, 8};
};

TEST_F(ManifestTest, WhatWasWrittenIsLoadedByFolderAndByName) {
  for (const std::string& path :
       {maker_.path(), maker_.path() + "/ckpt-00000042"}) {
    const auto loaded = LoadCheckpoint(storage::FileSystem::Real(), path);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->folder, maker_.path() + "/ckpt-00000042");
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
        loaded->manifest, maker_.manifest()));
  }
  EXPECT_TRUE(Open().ok()) << Open();
}

TEST_F(ManifestTest, EveryUnitHasOneServer) {
  auto open = VerifyAndOpen(
      storage::FileSystem::Real(),
      *LoadCheckpoint(storage::FileSystem::Real(), maker_.path()), 1);
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(open->server_of[0],
            (std::vector<uint32_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(open->server_of[1], (std::vector<uint32_t>{0, 1, 2}));
}

TEST_F(ManifestTest, WhatContradictsItselfIsDamage) {
  using Change = std::function<void(v1::CheckpointManifest&)>;
  const std::vector<std::pair<Change, std::string>> changes = {
      {[](auto& m) { m.set_cut(0); }, "no cut number"},
      {[](auto& m) { m.set_num_partitions(0); }, "has 0 partitions"},
      {[](auto& m) { m.set_num_partitions(12); }, "has 12 partitions"},
      {[](auto& m) { m.set_num_partitions(1 << 17); }, "power of two"},
      {[](auto& m) { m.clear_servers(); }, "has 0 servers"},
      {[](auto& m) { m.mutable_servers()->SwapElements(0, 1); },
       "expected server-000"},
      {[](auto& m) { m.mutable_servers(1)->set_directory("../server-001"); },
       "expected server-001"},
      {[](auto& m) {
         m.mutable_servers(0)->mutable_files(0)->set_name("../../passwd");
       },
       "without a folder"},
      {[](auto& m) { m.mutable_servers(0)->mutable_files(0)->set_name(".."); },
       "without a folder"},
      {[](auto& m) {
         *m.mutable_servers(0)->add_files() = m.servers(0).files(0);
       },
       "twice"},
      {[](auto& m) { m.mutable_tables(0)->set_id(0); }, "ids ascend"},
      {[](auto& m) { m.mutable_tables(1)->set_id(1); }, "ids ascend"},
      {[](auto& m) { m.mutable_tables(0)->clear_sparse(); },
       "neither sparse nor dense"},
      {[](auto& m) { m.mutable_tables(1)->mutable_dense()->set_block_size(0); },
       "blocks of 0"},
      {[](auto& m) {
         m.mutable_tables(1)->mutable_dense()->set_size(uint64_t{1} << 60);
       },
       "in blocks of 4"},
      {[](auto& m) {
         m.mutable_tables(1)->mutable_dense()->set_size((uint64_t{1} << 28) -
                                                        4);
       },
       "more than 67108864"},
      {[](auto& m) { m.mutable_servers(0)->mutable_tables(0)->set_table(9); },
       "table 9"},
  };
  const v1::CheckpointManifest sound = maker_.manifest();
  for (const auto& [change, message] : changes) {
    v1::CheckpointManifest manifest = sound;
    change(manifest);
    const auto parsed = ParseManifest("there", FormatManifest(manifest));
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss) << message;
    EXPECT_THAT(std::string(parsed.status().message()),
                AllOf(HasSubstr("there "), HasSubstr(message)));
  }
  v1::CheckpointManifest other = sound;
  other.set_format_version(2);
  EXPECT_EQ(ParseManifest("there", FormatManifest(other)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (const std::string text :
       {"cut: 1 cut: 2", "cat: 1", "cut: -1", "\xff\x00", "servers {", "{}"}) {
    EXPECT_EQ(ParseManifest("there", text).status().code(),
              absl::StatusCode::kDataLoss)
        << text;
  }
}

TEST_F(ManifestTest, AUnitThatIsMissingThereTwiceOrUnknownIsDamage) {
  const v1::CheckpointManifest sound = maker_.manifest();
  const auto expect = [&](const std::string& message) {
    ASSERT_TRUE(maker_.Commit().ok());
    const absl::Status status = Open();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    maker_.manifest() = sound;
  };
  maker_.manifest().set_num_partitions(16);
  expect("no state of table 1 unit 8 on any server");
  maker_.manifest().set_num_partitions(4);
  expect("cut 42 table 1 unit 6 state 0 of a table or unit");
  maker_.manifest().mutable_tables()->RemoveLast();
  for (auto& server : *maker_.manifest().mutable_servers()) {
    server.mutable_tables()->RemoveLast();
  }
  expect("table 2 unit 0 state 0 of a table or unit");
  maker_.manifest().mutable_servers()->RemoveLast();
  expect("no state of table 1 unit 2 on any server");
  maker_.manifest().set_cut(43);
  std::filesystem::copy(maker_.path() + "/ckpt-00000042",
                        maker_.path() + "/ckpt-00000043",
                        std::filesystem::copy_options::recursive);
  expect("no state of table 1 unit 0 on any server");
  // The part of one server in the place of another.
  const std::string folder = maker_.path() + "/ckpt-00000042/";
  std::filesystem::remove_all(folder + "server-001");
  std::filesystem::copy(folder + "server-000", folder + "server-001");
  *maker_.manifest().mutable_servers(1)->mutable_files() =
      sound.servers(0).files();
  expect("that server-000 has, too");
}

TEST_F(ManifestTest, RowsThatAreNotTheManifestsAreDamage) {
  const auto verify = [&] {
    auto open = VerifyAndOpen(
        storage::FileSystem::Real(),
        *LoadCheckpoint(storage::FileSystem::Real(), maker_.path()), 1);
    EXPECT_TRUE(open.ok()) << open.status();
    return VerifyTables(*open);
  };
  EXPECT_TRUE(verify().ok()) << verify();
  v1::TablePart* const part =
      maker_.manifest().mutable_servers(1)->mutable_tables(0);
  part->set_rows(part->rows() + 1);
  ASSERT_TRUE(maker_.Commit().ok());
  EXPECT_THAT(std::string(verify().message()), HasSubstr("/server-001 has"));
  part->set_rows(part->rows() - 1);
  part->set_digest(part->digest() + 1);
  ASSERT_TRUE(maker_.Commit().ok());
  EXPECT_EQ(verify().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace oarlock::checkpoint
