#include "storage/checkpoint_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::storage {
namespace {

namespace fs = std::filesystem;

CheckpointDir NewDir(const std::string& path) {
  auto dir = CheckpointDir::Create(FileSystem::Real(), path);
  EXPECT_TRUE(dir.ok()) << dir.status();
  return *std::move(dir);
}

std::string TextOf(uint64_t cut) { return absl::StrCat("cut: ", cut, "\n"); }

void Make(CheckpointDir& dir, uint64_t cut) {
  const auto folder = dir.Begin(cut);
  ASSERT_TRUE(folder.ok()) << folder.status();
  fs::create_directory(*folder + "/server-000");
  const absl::Status status = dir.Commit(cut, TextOf(cut));
  ASSERT_TRUE(status.ok()) << status;
}

void Overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string Slurp(const std::string& path) {
  return *FileSystem::Real()->ReadFile(path, 1 << 20);
}

TEST(CheckpointDirTest, WithoutACheckpointItIsNotFound) {
  const std::string path = FreshFolder("dir_none");
  EXPECT_EQ(CheckpointDir::Open(FileSystem::Real(), path).status().code(),
            absl::StatusCode::kNotFound);
  const CheckpointDir dir = NewDir(path);
  EXPECT_EQ(dir.ReadCurrent().status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(dir.List()->empty());
  EXPECT_EQ(*dir.LargestCut(), 0u);
}

TEST(CheckpointDirTest, TheNewestIsCurrentAndOlderOnesAreListed) {
  const std::string path = FreshFolder("dir_newest") + "/deep/er";
  CheckpointDir dir = NewDir(path);
  for (const uint64_t cut : {3, 5, 100'000'001}) Make(dir, cut);
  const auto current =
      CheckpointDir::Open(FileSystem::Real(), path)->ReadCurrent();
  ASSERT_TRUE(current.ok()) << current.status();
  EXPECT_EQ(current->cut, 100'000'001u);
  EXPECT_EQ(current->manifest, TextOf(100'000'001));
  EXPECT_EQ(*dir.List(), (std::vector<uint64_t>{3, 5, 100'000'001}));
  EXPECT_EQ(*ReadManifest(FileSystem::Real(), path + "/ckpt-00000005"),
            TextOf(5));
}

TEST(CheckpointDirTest, BytesAreThoseOfTheDocument) {
  const std::string path = FreshFolder("dir_bytes");
  CheckpointDir dir = NewDir(path);
  Make(dir, 42);
  EXPECT_EQ(Slurp(path + "/ckpt-00000042/MANIFEST"),
            "cut: 42\n# xxh3 aa18c7b877fa9ac5\n");
  EXPECT_EQ(Slurp(path + "/CURRENT"), "ckpt-00000042 098c1d7536077bff\n");
}

TEST(CheckpointDirTest, WhatADeadAttemptLeftIsGoneWhenItIsMadeAgain) {
  CheckpointDir dir = NewDir(FreshFolder("dir_again"));
  Make(dir, 1);
  const std::string folder = *dir.Begin(2);
  fs::create_directory(folder + "/server-000");
  Overwrite(folder + "/server-000/stale", "x");
  EXPECT_EQ(*dir.LargestCut(), 2u);
  EXPECT_EQ(*dir.List(), std::vector<uint64_t>{1});
  ASSERT_TRUE(dir.Begin(2).ok());
  EXPECT_TRUE(fs::is_empty(folder));
  ASSERT_TRUE(dir.Abandon(2).ok());
  EXPECT_FALSE(fs::exists(folder));
  // Current is not for abandoning.
  ASSERT_TRUE(dir.Abandon(1).ok());
  EXPECT_EQ(dir.ReadCurrent()->cut, 1u);
}

TEST(CheckpointDirTest, KeepRemovesTheOldestAndWhatDeadAttemptsLeft) {
  CheckpointDir dir = NewDir(FreshFolder("dir_keep"));
  for (const uint64_t cut : {1, 2}) Make(dir, cut);
  ASSERT_TRUE(dir.Begin(3).ok());
  for (const uint64_t cut : {4, 5, 6}) Make(dir, cut);
  ASSERT_TRUE(dir.Begin(7).ok());
  ASSERT_TRUE(dir.Keep(4).ok());
  EXPECT_EQ(*dir.List(), (std::vector<uint64_t>{2, 4, 5, 6}));
  EXPECT_FALSE(fs::exists(dir.FolderOf(3)));
  // The one that is being made.
  EXPECT_TRUE(fs::exists(dir.FolderOf(7)));
  ASSERT_TRUE(dir.Keep(1).ok());
  EXPECT_EQ(*dir.List(), std::vector<uint64_t>{6});
  EXPECT_EQ(dir.ReadCurrent()->manifest, TextOf(6));
}

TEST(CheckpointDirTest, TheBestOneStaysUntilThereIsABetterOne) {
  CheckpointDir dir = NewDir(FreshFolder("dir_best"));
  EXPECT_EQ(dir.ReadBest().status().code(), absl::StatusCode::kNotFound);
  for (const uint64_t cut : {1, 2, 3, 4}) Make(dir, cut);
  ASSERT_TRUE(dir.MarkBest(2).ok());
  ASSERT_TRUE(dir.Keep(1).ok());
  EXPECT_EQ(*dir.List(), (std::vector<uint64_t>{2, 4}));
  Make(dir, 5);
  ASSERT_TRUE(dir.MarkBest(5).ok());
  Make(dir, 6);
  // Another process opens it.
  CheckpointDir again = NewDir(dir.path());
  EXPECT_EQ(*again.ReadBest(), 5u);
  ASSERT_TRUE(again.Keep(1).ok());
  EXPECT_EQ(*again.List(), (std::vector<uint64_t>{5, 6}));
}

TEST(CheckpointDirTest, OneThatDiedBeforeItBecameCurrentIsNotKeptInsteadOfIt) {
  CheckpointDir dir = NewDir(FreshFolder("dir_died"));
  for (const uint64_t cut : {1, 2}) Make(dir, cut);
  const std::string current = Slurp(dir.path() + "/CURRENT");
  Make(dir, 3);
  Overwrite(dir.path() + "/CURRENT", current);
  ASSERT_TRUE(dir.Keep(1).ok());
  EXPECT_EQ(dir.ReadCurrent()->cut, 2u);
  EXPECT_EQ(*dir.List(), (std::vector<uint64_t>{2, 3}));
}

TEST(CheckpointDirTest, FilesOfAnyoneElseAreRefusedAndLeftAlone) {
  const std::string path = FreshFolder("dir_foreign");
  fs::create_directories(path);
  Overwrite(path + "/thesis", "years");
  const auto refused = CheckpointDir::Create(FileSystem::Real(), path);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("(thesis)"), std::string::npos);
  fs::remove(path + "/thesis");

  // Another program's folders of the same names.
  CheckpointDir dir = NewDir(path);
  fs::create_directories(path + "/ckpt-00000001");
  Overwrite(path + "/ckpt-00000001/weights.pt", "days");
  Make(dir, 2);
  EXPECT_EQ(dir.Keep(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(dir.Begin(1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(path + "/ckpt-00000001/weights.pt"));

  // A note beside checkpoints is fine.
  Overwrite(path + "/README", "ours");
  EXPECT_TRUE(CheckpointDir::Create(FileSystem::Real(), path).ok());
}

TEST(CheckpointDirTest, AnyByteOfCurrentOrOfTheManifestIsWatched) {
  CheckpointDir dir = NewDir(FreshFolder("dir_damage"));
  Make(dir, 42);
  const std::string manifest = dir.FolderOf(42) + "/MANIFEST";
  for (const std::string& path : {dir.path() + "/CURRENT", manifest}) {
    const std::string sound = Slurp(path);
    const auto expect_damage = [&](const std::string& bytes) {
      Overwrite(path, bytes);
      const auto current = dir.ReadCurrent();
      EXPECT_EQ(current.status().code(), absl::StatusCode::kDataLoss)
          << current.status() << " with " << bytes;
      // A damaged number names another folder, whose manifest is missing.
      EXPECT_NE(current.status().message().find(dir.path()), std::string::npos);
    };
    for (size_t i = 0; i < sound.size(); ++i) {
      for (const int bit : {0, 5, 7}) {
        std::string bytes = sound;
        bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
        expect_damage(bytes);
      }
      expect_damage(sound.substr(0, i));
    }
    expect_damage(sound + "\n");
    Overwrite(path, sound);
    EXPECT_TRUE(dir.ReadCurrent().ok());
  }
  fs::remove(manifest);
  EXPECT_EQ(dir.ReadCurrent().status().code(), absl::StatusCode::kDataLoss);
}

TEST(CheckpointDirTest, AManifestOfAnotherCheckpointIsDamage) {
  CheckpointDir dir = NewDir(FreshFolder("dir_swapped"));
  Make(dir, 1);
  Make(dir, 2);
  fs::copy_file(dir.FolderOf(1) + "/MANIFEST", dir.FolderOf(2) + "/MANIFEST",
                fs::copy_options::overwrite_existing);
  const auto current = dir.ReadCurrent();
  EXPECT_EQ(current.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(current.status().message().find("ckpt-00000002/MANIFEST"),
            std::string::npos);
}

TEST(CheckpointDirLimitTest, ManifestsHaveALimit) {
  constexpr uint64_t kMax = CheckpointDir::kMaxManifestBytes;
  EXPECT_TRUE(CheckpointDir::CheckManifestSize(kMax - 1).ok());
  EXPECT_TRUE(CheckpointDir::CheckManifestSize(kMax).ok());
  EXPECT_EQ(CheckpointDir::CheckManifestSize(kMax + 1).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace oarlock::storage
