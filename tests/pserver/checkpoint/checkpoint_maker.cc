#include "tests/pserver/checkpoint/checkpoint_maker.h"

#include <gtest/gtest.h>

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "checkpoint/manifest.h"
#include "sparse_table/rows/packed_rows.h"
#include "storage/checkpoint_dir.h"

namespace oarlock::pserver {
namespace {

constexpr uint32_t kBlockFloats = 4;
constexpr size_t kValues = 10;
// Small, so that partitions have several records.
constexpr size_t kRecordBytes = 400;

v1::CheckpointManifest EmptyManifest(uint32_t num_partitions) {
  v1::CheckpointManifest manifest;
  manifest.set_format_version(checkpoint::kCheckpointFormatVersion);
  manifest.set_job_id("test");
  manifest.set_created_unix_ms(1'700'000'000'000);
  manifest.set_num_partitions(num_partitions);
  v1::TableConfig* const slots = manifest.add_tables();
  slots->set_id(1);
  slots->set_name("slots");
  slots->set_mode(v1::ASYNC);
  slots->set_reduction(v1::MEAN);
  slots->mutable_optimizer()->set_learning_rate(.1f);
  slots->mutable_optimizer()->mutable_adagrad();
  slots->mutable_sparse()->set_dim(3);
  slots->mutable_sparse()->set_accessor(v1::PLAIN);
  v1::TableConfig* const dense = manifest.add_tables();
  *dense = *slots;
  dense->set_id(2);
  dense->set_name("dense");
  dense->mutable_dense()->set_size(kValues);
  dense->mutable_dense()->set_block_size(kBlockFloats);
  v1::PhaseCoverage* const coverage = manifest.add_works();
  coverage->set_work("train/0");
  coverage->add_covered()->set_end(5000);
  return manifest;
}

template <typename T>
void AppendBytes(const T& x, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&x), sizeof(x));
}

std::string Packed(uint64_t key, const std::vector<float>& floats) {
  std::string row;
  // Version 1, touch 0.
  AppendBytes(uint64_t{1} << 28, &row);
  AppendBytes(key, &row);
  for (const float x : floats) AppendBytes(x, &row);
  return row;
}

}  // namespace

JobModel RandomJob(size_t num_rows, RandomSequence& random) {
  JobModel model;
  const auto value = [&] { return static_cast<float>(random.Uniform() - .5); };
  while (model.rows.size() < num_rows) {
    std::vector<float>& row = model.rows[random()];
    for (size_t i = 0; i < CheckpointMaker::kRowFloats; ++i) {
      row.push_back(value());
    }
  }
  for (size_t i = 0; i < 2 * kValues; ++i) model.values.push_back(value());
  return model;
}

CheckpointMaker::CheckpointMaker(std::string path, uint32_t num_servers,
                                 uint32_t num_partitions)
    : path_(std::move(path)), manifest_(EmptyManifest(num_partitions)) {
  for (uint32_t i = 0; i < num_servers; ++i) {
    auto store = storage::CheckpointStore::Create(
        {.directory =
             absl::StrCat(path_, "/store/", checkpoint::ServerFolderName(i)),
         .file_bytes = 4096});
    EXPECT_TRUE(store.ok()) << store.status();
    stores_.push_back(*std::move(store));
  }
}

absl::Status CheckpointMaker::WritePartition(uint32_t partition,
                                             storage::RecordWriter& writer,
                                             const JobModel& model,
                                             v1::TablePart* part) {
  const int bits = std::bit_width(manifest_.num_partitions()) - 1;
  const sparse_table::PackedRows format(sparse_table::RowLayout(3, 3, false));
  const auto is_here = [&](uint64_t key) {
    return PartitionOfMix(Mix(key), bits).value() == partition;
  };
  storage::RecordName name{.cut = manifest_.cut(),
                           .table = TableId(1),
                           .unit = partition,
                           .kind = storage::RecordKind::kRows,
                           .number = 0};
  v1::SparsePartitionState state;
  state.set_base_cut(cuts_.front());
  for (size_t i = 1; i < cuts_.size(); ++i) state.add_delta_cuts(cuts_[i]);
  std::string bytes, erased;
  for (const auto& [key, floats] : model.rows) {
    if (!is_here(key)) continue;
    const std::string row = Packed(key, floats);
    state.set_rows(state.rows() + 1);
    state.set_digest(
        state.digest() +
        format.Digest(reinterpret_cast<const std::byte*>(row.data())));
    const auto old = last_.rows.find(key);
    if (old != last_.rows.end() && old->second == floats) continue;
    bytes += row;
    if (bytes.size() < kRecordBytes) continue;
    OARLOCK_RETURN_IF_ERROR(writer.Add(name, bytes));
    ++name.number;
  }
  if (!bytes.empty()) OARLOCK_RETURN_IF_ERROR(writer.Add(name, bytes));
  for (const auto& [key, floats] : last_.rows) {
    if (is_here(key) && !model.rows.contains(key)) AppendBytes(key, &erased);
  }
  name.number = 0;
  name.kind = storage::RecordKind::kErased;
  if (!erased.empty()) OARLOCK_RETURN_IF_ERROR(writer.Add(name, erased));
  name.kind = storage::RecordKind::kState;
  bytes = state.SerializeAsString();
  part->set_rows(part->rows() + state.rows());
  part->set_digest(part->digest() + state.digest());
  return writer.Add(name, bytes);
}

absl::Status CheckpointMaker::WriteServer(uint32_t server,
                                          storage::CutWriter& cut,
                                          const JobModel& model,
                                          v1::ServerPart* part) {
  const std::unique_ptr<storage::RecordWriter> writer = cut.NewRecordWriter();
  v1::TablePart* const slots = part->add_tables();
  slots->set_table(1);
  slots->set_full(cuts_.size() == 1);
  for (uint32_t p = server; p < manifest_.num_partitions();
       p += stores_.size()) {
    OARLOCK_RETURN_IF_ERROR(WritePartition(p, *writer, model, slots));
  }
  part->add_tables()->set_table(2);
  const uint32_t num_blocks = checkpoint::NumUnits(manifest_.tables(1), 0);
  for (uint32_t b = server; b < num_blocks; b += stores_.size()) {
    std::string bytes;
    for (const size_t half : {size_t{0}, kValues}) {
      for (size_t i = b * kBlockFloats;
           i < std::min<size_t>((b + 1) * kBlockFloats, kValues); ++i) {
        AppendBytes(model.values[half + i], &bytes);
      }
    }
    storage::RecordName name{.cut = manifest_.cut(),
                             .table = TableId(2),
                             .unit = b,
                             .kind = storage::RecordKind::kRows,
                             .number = 0};
    OARLOCK_RETURN_IF_ERROR(writer->Add(name, bytes));
    name.kind = storage::RecordKind::kState;
    v1::DenseBlockState state;
    state.set_base_cut(manifest_.cut());
    state.set_steps(manifest_.cut());
    bytes = state.SerializeAsString();
    OARLOCK_RETURN_IF_ERROR(writer->Add(name, bytes));
  }
  return writer->Finish();
}

absl::Status CheckpointMaker::Make(uint64_t cut, const JobModel& model) {
  manifest_.set_previous_cut(manifest_.cut());
  manifest_.set_cut(cut);
  manifest_.clear_servers();
  cuts_.push_back(cut);
  OARLOCK_ASSIGN_OR_RETURN(
      storage::CheckpointDir dir,
      storage::CheckpointDir::Create(storage::FileSystem::Real(), path_));
  OARLOCK_ASSIGN_OR_RETURN(const std::string folder, dir.Begin(cut));
  for (uint32_t i = 0; i < stores_.size(); ++i) {
    v1::ServerPart* const part = manifest_.add_servers();
    part->set_server_index(i);
    part->set_directory(checkpoint::ServerFolderName(i));
    const std::unique_ptr<storage::CutWriter> writer =
        stores_[i]->BeginCut(cut);
    OARLOCK_RETURN_IF_ERROR(WriteServer(i, *writer, model, part));
    part->set_written_bytes(writer->written_bytes());
    OARLOCK_RETURN_IF_ERROR(writer->Finish());
    OARLOCK_ASSIGN_OR_RETURN(
        const std::vector<storage::StoredFile> files,
        stores_[i]->Publish(absl::StrCat(folder, "/", part->directory())));
    checkpoint::SetFiles(files, part);
  }
  last_ = model;
  return dir.Commit(cut, checkpoint::FormatManifest(manifest_));
}

absl::Status CheckpointMaker::Commit() {
  OARLOCK_ASSIGN_OR_RETURN(
      storage::CheckpointDir dir,
      storage::CheckpointDir::Create(storage::FileSystem::Real(), path_));
  return dir.Commit(manifest_.cut(), checkpoint::FormatManifest(manifest_));
}

}  // namespace oarlock::pserver
