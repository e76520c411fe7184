#include "tests/storage/forgetful_file_system.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::storage {
namespace {

using Keep = ForgetfulFileSystem::Keep;

class ForgetfulFileSystemTest : public testing::Test {
 protected:
  // What the file holds, or "none".
  std::string Contents(const std::string& name) {
    const auto bytes = files_->ReadFile(Path(name), 1000);
    return bytes.ok() ? *bytes : "none";
  }
  std::string Path(const std::string& name) { return root_ + "/" + name; }

  std::unique_ptr<AppendedFile> Make(const std::string& name,
                                     absl::string_view bytes) {
    auto file = files_->CreateFile(Path(name));
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Append(bytes).ok());
    return *std::move(file);
  }
  void SyncRoot() { ASSERT_TRUE(files_->SyncFolder(root_).ok()); }

  const std::string root_ = FreshFolder("forgetful");
  ForgetfulFileSystem forgetful_{root_};
  FileSystem* const files_ = forgetful_.files();
};

TEST_F(ForgetfulFileSystemTest, BytesAfterTheLastSyncAreLost) {
  auto file = Make("log", "synced");
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Append(" and not").ok());
  SyncRoot();
  EXPECT_EQ(Contents("log"), "synced and not");
  file.reset();
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("log"), "synced");
}

TEST_F(ForgetfulFileSystemTest, AFileWhoseFolderWasNotSyncedIsLost) {
  ASSERT_TRUE(Make("log", "synced")->Sync().ok());
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("log"), "none");
}

TEST_F(ForgetfulFileSystemTest, AFileWhoseNameAloneSurvivesIsEmpty) {
  Make("log", "not synced");
  forgetful_.Crash(Keep::kNames);
  EXPECT_EQ(Contents("log"), "");
}

TEST_F(ForgetfulFileSystemTest, ARenameThatWasNotSyncedIsUndone) {
  ASSERT_TRUE(Make("current", "old")->Sync().ok());
  SyncRoot();
  ASSERT_TRUE(Make("next", "new")->Sync().ok());
  ASSERT_TRUE(files_->Rename(Path("next"), Path("current")).ok());
  EXPECT_EQ(Contents("current"), "new");
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("current"), "old");
  EXPECT_EQ(Contents("next"), "none");
}

TEST_F(ForgetfulFileSystemTest, AFileThatIsReplacedDurablyStaysReplaced) {
  ASSERT_TRUE(ReplaceFile(files_, Path("current"), "old").ok());
  ASSERT_TRUE(ReplaceFile(files_, Path("current"), "new").ok());
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("current"), "new");
  EXPECT_EQ(Contents("current.tmp"), "none");
}

TEST_F(ForgetfulFileSystemTest, AFileThatIsWrittenOverMayComeBackOrBeEmpty) {
  ASSERT_TRUE(ReplaceFile(files_, Path("current"), "old").ok());
  Make("current", "new");
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("current"), "old");
  Make("current", "new");
  forgetful_.Crash(Keep::kNames);
  EXPECT_EQ(Contents("current"), "");
}

TEST_F(ForgetfulFileSystemTest, ARemovalThatWasNotSyncedIsUndone) {
  ASSERT_TRUE(ReplaceFile(files_, Path("log"), "bytes").ok());
  ASSERT_TRUE(files_->RemoveFile(Path("log")).ok());
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("log"), "bytes");
  ASSERT_TRUE(files_->RemoveFile(Path("log")).ok());
  SyncRoot();
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("log"), "none");
}

TEST_F(ForgetfulFileSystemTest, FoldersFollowTheSameRules) {
  ASSERT_TRUE(files_->MakeFolders(Path("a/b")).ok());
  ASSERT_TRUE(ReplaceFile(files_, Path("a/b/file"), "deep").ok());
  ASSERT_TRUE(files_->Rename(Path("a"), Path("c")).ok());
  EXPECT_EQ(Contents("c/b/file"), "deep");
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("a/b/file"), "deep");
  EXPECT_EQ(Contents("c/b/file"), "none");
  ASSERT_TRUE(files_->RemoveTree(Path("a")).ok());
  forgetful_.Crash(Keep::kNothing);
  EXPECT_EQ(Contents("a/b/file"), "deep");
}

TEST_F(ForgetfulFileSystemTest, SomeOfWhatWasNotSyncedSurvives) {
  bool shorter = false, longer = false, gone = false;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    {
      auto file = Make("log", "1234");
      ASSERT_TRUE(file->Sync().ok());
      ASSERT_TRUE(file->Append("5678").ok());
    }
    forgetful_.Crash(Keep::kSome, seed);
    const std::string contents = Contents("log");
    if (contents == "none") {
      gone = true;
    } else {
      EXPECT_EQ(contents, std::string("12345678").substr(0, contents.size()));
      EXPECT_GE(contents.size(), 4u);
      (contents.size() == 4 ? shorter : longer) = true;
    }
    if (contents != "none") {
      ASSERT_TRUE(files_->RemoveFile(Path("log")).ok());
    }
    SyncRoot();
  }
  EXPECT_TRUE(shorter && longer && gone);
}

TEST_F(ForgetfulFileSystemTest, AfterItsLastStepAProcessChangesNothing) {
  auto file = Make("log", "12");
  EXPECT_EQ(forgetful_.num_steps(), 2u);
  forgetful_.FailAfter(1);
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_FALSE(file->Append("34").ok());
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_FALSE(files_->SyncFolder(root_).ok());
  EXPECT_FALSE(files_->Rename(Path("log"), Path("other")).ok());
  EXPECT_FALSE(files_->CreateFile(Path("other")).ok());
  EXPECT_EQ(Contents("log"), "12");
  file.reset();
  forgetful_.Crash(Keep::kNothing);
  ASSERT_TRUE(ReplaceFile(files_, Path("log"), "alive").ok());
}

TEST_F(ForgetfulFileSystemTest, AFullDiskTakesWhatFits) {
  forgetful_.SetRoomBytes(6);
  const auto file = files_->CreateFile(Path("log"));
  ASSERT_TRUE((*file)->Append("1234").ok());
  EXPECT_EQ((*file)->Append("5678").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Contents("log"), "123456");
  forgetful_.SetRoomBytes(100);
  EXPECT_TRUE((*file)->Append("9").ok());
}

}  // namespace
}  // namespace oarlock::storage
