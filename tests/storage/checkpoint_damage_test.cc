// Whatever happens to a published folder is told, with the file's name, and
// ends no process.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "storage/checkpoint_reader.h"
#include "storage/checkpoint_store.h"
#include "storage/file_sum.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::storage {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSeed = 23;

class CheckpointDamageTest : public testing::Test {
 protected:
  void SetUp() override {
    RandomSequence random(kSeed);
    fs::create_directories(folder_);
    auto store = CheckpointStore::Create(
        {.directory = folder_ + "/store", .file_bytes = 16 << 10});
    ASSERT_TRUE(store.ok()) << store.status();
    for (uint64_t cut = 1; cut <= 2; ++cut) {
      ASSERT_TRUE(WriteCut(**store, cut, RandomCut(cut, 4, 3000, random)).ok());
    }
    auto files = (*store)->Publish(folder_ + "/sound");
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *files;
    ASSERT_GT(files_.size(), 5u);
  }

  // A copy to be damaged.
  std::string Copy() {
    const std::string copy = folder_ + "/damaged";
    fs::remove_all(copy);
    fs::copy(folder_ + "/sound", copy);
    return copy;
  }

  // A DataLoss that names the file.
  void ExpectDamage(const std::string& name) {
    CheckpointReaderOptions options;
    options.folder = folder_ + "/damaged";
    options.stored = files_;
    const auto reader = CheckpointReader::Open(options);
    ASSERT_EQ(reader.status().code(), absl::StatusCode::kDataLoss)
        << reader.status();
    EXPECT_NE(reader.status().message().find("/damaged/" + name),
              std::string::npos)
        << reader.status();
  }

  std::vector<std::string> Ssts() const {
    std::vector<std::string> names;
    for (const StoredFile& file : files_) {
      if (file.name.ends_with(".sst")) names.push_back(file.name);
    }
    return names;
  }

  const std::string folder_ = FreshFolder("damage");
  std::vector<StoredFile> files_;
};

void Flip(const std::string& path, uint64_t offset, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ (1 << bit)));
}

TEST_F(CheckpointDamageTest, AFlippedBitIsFoundWhereverItIs) {
  RandomSequence random(kSeed);
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const std::string copy = Copy();
  for (const StoredFile& file : files_) {
    if (file.bytes == 0) continue;
    const std::string path = copy + "/" + file.name;
    std::vector<uint64_t> offsets = {0, file.bytes - 1};
    for (int i = 0; i < 30; ++i) offsets.push_back(random.Below(file.bytes));
    for (const uint64_t offset : offsets) {
      SCOPED_TRACE(testing::Message() << file.name << " at " << offset);
      const int bit = static_cast<int>(random.Below(8));
      Flip(path, offset, bit);
      ExpectDamage(file.name);
      Flip(path, offset, bit);
    }
  }
  EXPECT_TRUE(
      VerifyFiles(FileSystem::Real(), copy, files_, /*num_threads=*/3).ok());
}

TEST_F(CheckpointDamageTest, AFileThatIsShorterLongerEmptyOrGoneIsFound) {
  for (const StoredFile& file : files_) {
    SCOPED_TRACE(file.name);
    for (const uint64_t bytes :
         {uint64_t{0}, file.bytes / 2, file.bytes - 1, file.bytes + 1}) {
      if (bytes == file.bytes || bytes > file.bytes + 1) continue;
      fs::resize_file(Copy() + "/" + file.name, bytes);
      ExpectDamage(file.name);
    }
    fs::remove(Copy() + "/" + file.name);
    ExpectDamage(file.name);
  }
}

TEST_F(CheckpointDamageTest, FilesThatChangedPlacesAreFound) {
  const std::vector<std::string> ssts = Ssts();
  for (size_t i = 1; i < ssts.size(); ++i) {
    const std::string copy = Copy();
    fs::rename(copy + "/" + ssts[0], copy + "/other");
    fs::rename(copy + "/" + ssts[i], copy + "/" + ssts[0]);
    fs::rename(copy + "/other", copy + "/" + ssts[i]);
    CheckpointReaderOptions options;
    options.folder = copy;
    options.stored = files_;
    EXPECT_EQ(CheckpointReader::Open(options).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST_F(CheckpointDamageTest, AFileMoreIsFoundUnlessToolsLeaveSuch) {
  for (const std::string name : {"999999.sst", "MANIFEST-000099", "notes"}) {
    std::ofstream(Copy() + "/" + name) << "x";
    ExpectDamage(name);
  }
  std::ofstream(Copy() + "/LOG") << "ldb was here";
  EXPECT_TRUE(
      VerifyFiles(FileSystem::Real(), folder_ + "/damaged", files_, 1).ok());
}

TEST_F(CheckpointDamageTest, AnEmptyOrMissingFolderIsFound) {
  const std::string copy = Copy();
  fs::remove_all(copy);
  CheckpointReaderOptions options;
  options.folder = copy;
  EXPECT_EQ(CheckpointReader::Open(options).status().code(),
            absl::StatusCode::kDataLoss);
  fs::create_directory(copy);
  EXPECT_EQ(CheckpointReader::Open(options).status().code(),
            absl::StatusCode::kDataLoss);
  options.stored = files_;
  EXPECT_EQ(CheckpointReader::Open(options).status().code(),
            absl::StatusCode::kDataLoss);
}

// Whoever skips the sums of files still has those of records: any byte of a
// value is theirs. (Other bytes are RocksDB's; see CheckpointReaderOptions.)
TEST_F(CheckpointDamageTest, ARecordWhoseBytesChangedIsFoundWithoutFileSums) {
  const std::string copy = Copy();
  size_t num_found = 0;
  for (const std::string& sst : Ssts()) {
    // Rows of 3000 bytes begin near the front and fill most of the file.
    Flip(copy + "/" + sst, 2000, 3);
  }
  CheckpointReaderOptions options;
  options.folder = copy;
  options.verify_threads = 0;
  const auto reader = CheckpointReader::Open(options);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (uint32_t unit = 0; unit < 4; ++unit) {
    const absl::Status status = (*reader)->Visit(
        1, TableId(1), unit, RecordKind::kRows,
        [](const RecordName&, absl::string_view) { return absl::OkStatus(); });
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    ++num_found;
  }
  EXPECT_GT(num_found, 0u);
}

}  // namespace
}  // namespace oarlock::storage
