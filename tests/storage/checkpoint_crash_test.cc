// Power is lost, or the disk is full, at every step of making a checkpoint.

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "storage/checkpoint_dir.h"
#include "storage/checkpoint_reader.h"
#include "storage/checkpoint_store.h"
#include "tests/storage/checkpoint_testing.h"
#include "tests/storage/forgetful_file_system.h"

namespace oarlock::storage {
namespace {

using Keep = ForgetfulFileSystem::Keep;

constexpr uint64_t kSeed = 5;

// The manifest of these tests: a line for each file.
std::string TextOf(const std::vector<StoredFile>& files) {
  std::string text;
  for (const StoredFile& file : files) {
    absl::StrAppend(&text, file.name, " ", file.bytes, " ", file.xxh3, "\n");
  }
  return text;
}

std::vector<StoredFile> FilesOf(const std::string& text) {
  std::vector<StoredFile> files;
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    StoredFile file{.name = words[0]};
    EXPECT_TRUE(absl::SimpleAtoi(words[1], &file.bytes));
    EXPECT_TRUE(absl::SimpleAtoi(words[2], &file.xxh3));
    files.push_back(std::move(file));
  }
  return files;
}

// A server that makes checkpoints, on a disk that forgets.
class Job {
 public:
  explicit Job(const std::string& name)
      : path_(FreshFolder(name)), forgetful_(path_) {}

  ForgetfulFileSystem& forgetful() { return forgetful_; }

  absl::Status Start() {
    OARLOCK_ASSIGN_OR_RETURN(
        store_,
        CheckpointStore::Create({.directory = path_ + "/store/server-000",
                                 .files = forgetful_.files(),
                                 .file_bytes = 4096}));
    return absl::OkStatus();
  }
  void Die() { store_.reset(); }

  // Writes, publishes, makes current, forgets the one before.
  absl::Status MakeCheckpoint(uint64_t cut, const RecordModel& records) {
    OARLOCK_ASSIGN_OR_RETURN(CheckpointDir dir,
                             CheckpointDir::Create(forgetful_.files(), path_));
    OARLOCK_ASSIGN_OR_RETURN(const std::string folder, dir.Begin(cut));
    OARLOCK_RETURN_IF_ERROR(WriteCut(*store_, cut, records));
    OARLOCK_ASSIGN_OR_RETURN(const std::vector<StoredFile> files,
                             store_->Publish(folder + "/server-000"));
    OARLOCK_RETURN_IF_ERROR(dir.Commit(cut, TextOf(files)));
    committed_ = cut;
    OARLOCK_RETURN_IF_ERROR(store_->Forget(0, cut));
    return dir.Keep(1);
  }
  // Of which Commit has returned.
  uint64_t committed() const { return committed_; }

  // Number and records of the current checkpoint, all files compared with their
  // sums.
  absl::StatusOr<std::pair<uint64_t, RecordModel>> ReadCurrent() {
    OARLOCK_ASSIGN_OR_RETURN(const CheckpointDir dir,
                             CheckpointDir::Open(forgetful_.files(), path_));
    OARLOCK_ASSIGN_OR_RETURN(const CheckpointDir::Current current,
                             dir.ReadCurrent());
    CheckpointReaderOptions options;
    options.files = forgetful_.files();
    options.folder = dir.FolderOf(current.cut) + "/server-000";
    options.stored = FilesOf(current.manifest);
    OARLOCK_ASSIGN_OR_RETURN(const auto reader,
                             CheckpointReader::Open(options));
    OARLOCK_ASSIGN_OR_RETURN(RecordModel records,
                             ReadCuts(*reader, current.cut, current.cut));
    return std::make_pair(current.cut, std::move(records));
  }

 private:
  const std::string path_;
  ForgetfulFileSystem forgetful_;
  std::unique_ptr<CheckpointStore> store_;
  uint64_t committed_ = 0;
};

class CheckpointCrashTest : public testing::TestWithParam<Keep> {};

TEST_P(CheckpointCrashTest, TheOldOrTheNewCheckpointIsWholeAfterAnyStep) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  std::vector<RecordModel> cuts = {{}};
  for (uint64_t cut = 1; cut <= 3; ++cut) {
    cuts.push_back(RandomCut(cut, 2, 700, random));
  }
  size_t num_old = 0, num_new = 0;
  bool finished = false;
  for (uint64_t step = 0; !finished; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    Job job(absl::StrCat("crash_", static_cast<int>(GetParam())));
    ASSERT_TRUE(job.Start().ok());
    const absl::Status first = job.MakeCheckpoint(1, cuts[1]);
    ASSERT_TRUE(first.ok()) << first;

    job.forgetful().FailAfter(step);
    finished = job.MakeCheckpoint(2, cuts[2]).ok();
    job.Die();
    job.forgetful().Crash(GetParam(), kSeed + step);

    const auto current = job.ReadCurrent();
    ASSERT_TRUE(current.ok()) << current.status();
    ASSERT_GE(current->first, job.committed());
    ASSERT_LE(current->first, 2u);
    ASSERT_EQ(current->second, cuts[current->first]);
    ++(current->first == 1 ? num_old : num_new);

    // The job goes on.
    const absl::Status started = job.Start();
    ASSERT_TRUE(started.ok()) << started;
    const absl::Status next = job.MakeCheckpoint(3, cuts[3]);
    ASSERT_TRUE(next.ok()) << next;
    job.Die();
    job.forgetful().Crash(GetParam(), kSeed + step);
    ASSERT_EQ(job.ReadCurrent()->second, cuts[3]);
  }
  // Before and after the step that counts there are others.
  EXPECT_GT(num_old, 20u);
  EXPECT_GT(num_new, 5u);
}

INSTANTIATE_TEST_SUITE_P(Keep, CheckpointCrashTest,
                         testing::Values(Keep::kNothing, Keep::kNames,
                                         Keep::kSome));

TEST(CheckpointDurabilityTest, APublicationThatWasAnsweredSurvives) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  const std::string path = FreshFolder("durable");
  ForgetfulFileSystem forgetful(path);
  ASSERT_TRUE(forgetful.files()->MakeFolders(path + "/out").ok());
  auto store = CheckpointStore::Create({.directory = path + "/store",
                                        .files = forgetful.files(),
                                        .file_bytes = 4096});
  ASSERT_TRUE(store.ok()) << store.status();
  const RecordModel model = RandomCut(1, 2, 700, random);
  ASSERT_TRUE(WriteCut(**store, 1, model).ok());
  const auto files = (*store)->Publish(path + "/out/server-000");
  ASSERT_TRUE(files.ok()) << files.status();
  forgetful.FailAfter(0);
  store->reset();
  forgetful.Crash(Keep::kNothing);
  CheckpointReaderOptions options;
  options.files = forgetful.files();
  options.folder = path + "/out/server-000";
  options.stored = *files;
  const auto reader = CheckpointReader::Open(options);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(*ReadCuts(**reader, 1, 1), model);
}

TEST(CheckpointFullDiskTest, TheOldCheckpointStaysAndTheNextOneWorks) {
  RandomSequence random(kSeed);
  Job job("full_disk");
  ASSERT_TRUE(job.Start().ok());
  uint64_t cut = 1;
  RecordModel old = RandomCut(cut, 2, 700, random);
  ASSERT_TRUE(job.MakeCheckpoint(cut, old).ok());
  size_t num_refused = 0;
  for (uint64_t room = 0;; room += 1500) {
    SCOPED_TRACE(testing::Message() << "room for " << room << " bytes");
    RecordModel next = RandomCut(++cut, 2, 700, random);
    job.forgetful().SetRoomBytes(room);
    const absl::Status status = job.MakeCheckpoint(cut, next);
    job.forgetful().SetRoomBytes(std::numeric_limits<uint64_t>::max());
    if (!status.ok()) {
      ++num_refused;
      ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      ASSERT_EQ(job.ReadCurrent()->second, old);
      // With the same store, once there is room.
      old = RandomCut(++cut, 2, 700, random);
      const absl::Status retried = job.MakeCheckpoint(cut, old);
      ASSERT_TRUE(retried.ok()) << retried;
    } else {
      old = std::move(next);
    }
    ASSERT_EQ(job.ReadCurrent()->second, old);
    if (status.ok()) break;
  }
  EXPECT_GT(num_refused, 5u);
}

}  // namespace
}  // namespace oarlock::storage
