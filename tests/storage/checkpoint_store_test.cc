#include "storage/checkpoint_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "storage/file_sum.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::storage {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSeed = 17;

std::unique_ptr<CheckpointStore> NewStore(const std::string& folder,
                                          uint64_t file_bytes = 64 << 10) {
  auto store =
      CheckpointStore::Create({.directory = folder, .file_bytes = file_bytes});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::unique_ptr<CheckpointReader> Reader(const std::string& folder,
                                         const std::vector<StoredFile>& files) {
  CheckpointReaderOptions options;
  options.folder = folder;
  options.stored = files;
  auto reader = CheckpointReader::Open(options);
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

// A store with one cut of 20 records, published in "<folder>/out".
struct OneCut {
  std::string folder;
  std::unique_ptr<CheckpointStore> store;
  std::vector<StoredFile> files;
};

OneCut PublishOneCut(const std::string& name) {
  RandomSequence random(kSeed);
  OneCut one;
  one.folder = FreshFolder(name);
  fs::create_directories(one.folder);
  one.store = NewStore(one.folder + "/store");
  EXPECT_TRUE(WriteCut(*one.store, 1, RandomCut(1, 20, 9000, random)).ok());
  const auto files = one.store->Publish(one.folder + "/out");
  EXPECT_TRUE(files.ok()) << files.status();
  if (files.ok()) one.files = *files;
  return one;
}

uint64_t TreeBytes(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

TEST(CheckpointStoreTest, EachPublicationHoldsAllCutsUpToItsOwn) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  const std::string folder = FreshFolder("cuts");
  fs::create_directories(folder);
  auto store = NewStore(folder + "/store");
  RecordModel model;
  std::vector<RecordModel> models;
  std::vector<std::vector<StoredFile>> published;
  for (uint64_t cut = 1; cut <= 4; ++cut) {
    const RecordModel records = RandomCut(cut, 10, 5000, random);
    model.insert(records.begin(), records.end());
    ASSERT_TRUE(WriteCut(*store, cut, records).ok());
    auto files = store->Publish(folder + "/" + std::to_string(cut));
    ASSERT_TRUE(files.ok()) << files.status();
    published.push_back(*files);
    models.push_back(model);
  }
  // They stand by themselves.
  store.reset();
  EXPECT_FALSE(fs::exists(folder + "/store"));
  for (uint64_t cut = 1; cut <= 4; ++cut) {
    const auto reader =
        Reader(folder + "/" + std::to_string(cut), published[cut - 1]);
    const auto records = ReadCuts(*reader, 0, 9);
    ASSERT_TRUE(records.ok()) << records.status();
    EXPECT_EQ(*records, models[cut - 1]);
  }
}

TEST(CheckpointStoreTest, SumsAreThoseOfTheFiles) {
  const OneCut one = PublishOneCut("sums");
  size_t num_ssts = 0;
  std::vector<std::string> names;
  for (const StoredFile& file : one.files) {
    auto read = SumFile(FileSystem::Real(), one.folder + "/out/" + file.name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->bytes, file.bytes) << file.name;
    EXPECT_EQ(read->xxh3, file.xxh3) << file.name;
    num_ssts += file.name.ends_with(".sst");
    names.push_back(file.name);
  }
  EXPECT_GT(num_ssts, 10u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(CheckpointStoreTest, FilesOfAPublicationAreLinksWithoutACopy) {
  const OneCut one = PublishOneCut("links");
  size_t num_ssts = 0;
  for (const StoredFile& file : one.files) {
    if (!file.name.ends_with(".sst")) continue;
    ++num_ssts;
    EXPECT_EQ(fs::hard_link_count(one.folder + "/out/" + file.name), 2u);
  }
  EXPECT_GT(num_ssts, 10u);
}

TEST(CheckpointStoreTest, ForgottenCutsGoFromTheStoreAndStayInPublications) {
  RandomSequence random(kSeed);
  const std::string folder = FreshFolder("forget");
  fs::create_directories(folder);
  const auto store = NewStore(folder + "/store");
  std::vector<RecordModel> cuts;
  for (uint64_t cut = 1; cut <= 5; ++cut) {
    cuts.push_back(RandomCut(cut, 10, 5000, random));
    ASSERT_TRUE(WriteCut(*store, cut, cuts.back()).ok());
  }
  const auto before = store->Publish(folder + "/before");
  ASSERT_TRUE(before.ok()) << before.status();
  const uint64_t bytes_before = store->disk_bytes();
  const uint64_t tree_before = TreeBytes(store->directory());

  ASSERT_TRUE(store->Forget(2, 4).ok());
  EXPECT_NEAR(store->disk_bytes(), .6 * bytes_before, .01 * bytes_before);
  EXPECT_NEAR(TreeBytes(store->directory()), .6 * tree_before,
              .05 * tree_before);
  const auto after = store->Publish(folder + "/after");
  ASSERT_TRUE(after.ok()) << after.status();

  RecordModel kept;
  for (const int i : {0, 3, 4}) kept.insert(cuts[i].begin(), cuts[i].end());
  EXPECT_EQ(*ReadCuts(*Reader(folder + "/after", *after), 0, 9), kept);
  for (const int i : {1, 2}) kept.insert(cuts[i].begin(), cuts[i].end());
  EXPECT_EQ(*ReadCuts(*Reader(folder + "/before", *before), 0, 9), kept);
}

TEST(CheckpointStoreTest, OnlyTheNewestCutStaysWhenEachForgetsThoseBefore) {
  RandomSequence random(kSeed);
  const std::string folder = FreshFolder("newest");
  // All of a cut in one file a writer.
  const auto store = NewStore(folder, 1 << 20);
  for (uint64_t cut = 1; cut <= 4; ++cut) {
    ASSERT_TRUE(WriteCut(*store, cut, RandomCut(cut, 10, 5000, random)).ok());
    ASSERT_TRUE(store->Forget(cut == 1 ? 0 : cut - 1, cut).ok());
    EXPECT_NEAR(store->disk_bytes(), 2 * 4 * 10 * 5000, 10'000) << cut;
  }
}

TEST(CheckpointStoreTest, AnAbandonedCutLeavesNothing) {
  RandomSequence random(kSeed);
  const std::string folder = FreshFolder("abandoned");
  fs::create_directories(folder);
  const auto store = NewStore(folder + "/store");
  const RecordModel first = RandomCut(1, 10, 5000, random);
  ASSERT_TRUE(WriteCut(*store, 1, first).ok());
  const uint64_t tree_bytes = TreeBytes(store->directory());
  {
    const auto cut = store->BeginCut(2);
    const auto finished = cut->NewRecordWriter();
    auto abandoned = cut->NewRecordWriter();
    std::string bytes(100'000, 'x');
    ASSERT_TRUE(finished->Add({.cut = 2, .table = TableId(1)}, bytes).ok());
    ASSERT_TRUE(finished->Finish().ok());
    bytes.assign(100, 'y');
    ASSERT_TRUE(abandoned->Add({.cut = 2, .table = TableId(2)}, bytes).ok());
    EXPECT_GT(cut->written_bytes(), 100'000u);
  }
  EXPECT_EQ(TreeBytes(store->directory()), tree_bytes);
  const RecordModel third = RandomCut(3, 10, 5000, random);
  ASSERT_TRUE(WriteCut(*store, 3, third).ok());
  const auto files = store->Publish(folder + "/out");
  ASSERT_TRUE(files.ok()) << files.status();
  RecordModel model = first;
  model.insert(third.begin(), third.end());
  EXPECT_EQ(*ReadCuts(*Reader(folder + "/out", *files), 0, 9), model);
}

TEST(CheckpointStoreTest, ACutWithAnAbandonedWriterDoesNotFinish) {
  const std::string folder = FreshFolder("unfinished");
  const auto store = NewStore(folder);
  const auto cut = store->BeginCut(1);
  cut->NewRecordWriter().reset();
  EXPECT_EQ(cut->Finish().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CheckpointStoreTest, AnEmptyCutIsACut) {
  const std::string folder = FreshFolder("empty");
  fs::create_directories(folder);
  const auto store = NewStore(folder + "/store");
  ASSERT_TRUE(WriteCut(*store, 1, {}).ok());
  const auto files = store->Publish(folder + "/out");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(ReadCuts(*Reader(folder + "/out", *files), 0, 9)->size(), 0u);
}

TEST(CheckpointStoreTest, AFolderThatIsThereIsNotPublishedInto) {
  const std::string folder = FreshFolder("there");
  fs::create_directories(folder + "/out");
  std::ofstream(folder + "/out/thesis") << "years";
  const auto store = NewStore(folder + "/store");
  EXPECT_EQ(store->Publish(folder + "/out").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(folder + "/out/thesis"));
}

TEST(CheckpointStoreTest, SomebodyElsesFolderIsRefused) {
  const std::string folder = FreshFolder("foreign");
  fs::create_directories(folder);
  std::ofstream(folder + "/thesis") << "years";
  EXPECT_EQ(CheckpointStore::Create({.directory = folder}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(folder + "/thesis"));
}

TEST(CheckpointReaderTest, StatesAreFoundWithoutTheirRows) {
  RandomSequence random(kSeed);
  const std::string folder = FreshFolder("states");
  fs::create_directories(folder);
  const auto store = NewStore(folder + "/store");
  std::vector<RecordName> states;
  for (uint64_t cut = 1; cut <= 3; ++cut) {
    const RecordModel records = RandomCut(cut, 3, 1000, random);
    ASSERT_TRUE(WriteCut(*store, cut, records).ok());
    for (const auto& [name, bytes] : records) {
      if (cut == 2 && name.kind == RecordKind::kState) states.push_back(name);
    }
  }
  const auto files = store->Publish(folder + "/out");
  ASSERT_TRUE(files.ok()) << files.status();
  const auto reader = Reader(folder + "/out", *files);
  EXPECT_EQ(*reader->StatesOf(2), states);
  EXPECT_TRUE(reader->StatesOf(4)->empty());
  EXPECT_TRUE(reader->Read(states[0]).ok());
  EXPECT_EQ(reader->Read({.cut = 4, .table = TableId(1)}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(CheckpointReaderTest, AFolderThatCannotBeWrittenIsRead) {
  RandomSequence random(kSeed);
  const std::string folder = FreshFolder("readonly");
  fs::create_directories(folder);
  const auto store = NewStore(folder + "/store");
  const RecordModel model = RandomCut(1, 3, 1000, random);
  ASSERT_TRUE(WriteCut(*store, 1, model).ok());
  const auto files = store->Publish(folder + "/out");
  ASSERT_TRUE(files.ok()) << files.status();
  const auto list = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder + "/out")) {
      names.push_back(entry.path().filename());
    }
    return names;
  };
  const std::vector<std::string> before = list();
  fs::permissions(folder + "/out",
                  fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(*ReadCuts(*Reader(folder + "/out", *files), 0, 9), model);
  fs::permissions(folder + "/out", fs::perms::owner_all);
  // Whoever runs the tests may write everywhere; so look, too.
  EXPECT_EQ(list(), before);
}

}  // namespace
}  // namespace oarlock::storage
