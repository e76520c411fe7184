#include "fleet/serving/model_folder.h"

#include <zlib.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace oarlock {
namespace {

// Bytes that go to a file at a time.
constexpr size_t kBufferBytes = 1 << 20;

uint32_t Crc32(uint32_t before, absl::string_view bytes) {
  return static_cast<uint32_t>(crc32_z(
      before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

SummedFile::SummedFile(ModelFolder* folder, std::string name,
                       std::unique_ptr<storage::AppendedFile> file)
    : folder_(folder), name_(std::move(name)), file_(std::move(file)) {}

absl::Status SummedFile::Append(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : WriteBuffer();
}

absl::Status SummedFile::WriteBuffer() {
  crc32_ = Crc32(crc32_, buffer_);
  bytes_ += buffer_.size();
  OARLOCK_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status SummedFile::Close() {
  OARLOCK_RETURN_IF_ERROR(WriteBuffer());
  OARLOCK_RETURN_IF_ERROR(file_->Sync());
  OARLOCK_RETURN_IF_ERROR(file_->Close());
  folder_->sums_[name_] = {bytes_, crc32_};
  return absl::OkStatus();
}

ModelFolder::ModelFolder(storage::FileSystem* files, std::string path)
    : files_(files),
      path_(std::move(path)),
      temporary_(absl::StrCat(path_, ".tmp")) {}

ModelFolder::~ModelFolder() { files_->RemoveTree(temporary_).IgnoreError(); }

absl::StatusOr<std::unique_ptr<ModelFolder>> ModelFolder::Create(
    storage::FileSystem* files, const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  OARLOCK_ASSIGN_OR_RETURN(const bool exists, files->Exists(name));
  if (exists) {
    return absl::AlreadyExistsError(absl::StrCat(
        "'", name, "' is there already; remove it or name another folder"));
  }
  auto folder = absl::WrapUnique(new ModelFolder(files, std::move(name)));
  // Left by one that was killed.
  OARLOCK_RETURN_IF_ERROR(files->RemoveTree(folder->temporary_));
  OARLOCK_RETURN_IF_ERROR(files->MakeFolders(folder->temporary_));
  return folder;
}

absl::StatusOr<std::unique_ptr<SummedFile>> ModelFolder::CreateFile(
    const std::string& name) {
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<storage::AppendedFile> file,
      files_->CreateFile(absl::StrCat(temporary_, "/", name)));
  return absl::WrapUnique(new SummedFile(this, name, std::move(file)));
}

absl::Status ModelFolder::WriteFile(const std::string& name,
                                    absl::string_view bytes) {
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<SummedFile> file,
                           CreateFile(name));
  OARLOCK_RETURN_IF_ERROR(file->Append(bytes));
  return file->Close();
}

uint64_t ModelFolder::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, sum] : sums_) bytes += sum.bytes;
  return bytes;
}

absl::Status ModelFolder::Publish() {
  std::string text;
  for (const auto& [name, sum] : sums_) {
    absl::StrAppendFormat(&text, "crc32 %08x %d %s\n", sum.crc32, sum.bytes,
                          name);
  }
  absl::StrAppendFormat(&text, "end %08x\n", Crc32(0, text));
  OARLOCK_RETURN_IF_ERROR(WriteFile("SUMS", text));
  OARLOCK_RETURN_IF_ERROR(files_->SyncFolder(temporary_));
  OARLOCK_RETURN_IF_ERROR(files_->Rename(temporary_, path_));
  const size_t slash = path_.rfind('/');
  const std::string parent = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                          : path_.substr(0, slash);
  return files_->SyncFolder(parent);
}

}  // namespace oarlock
