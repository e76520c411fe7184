#include "examples/score/model_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <utility>

namespace oarlock::score {
namespace {

uint32_t Crc32(const char* data, size_t size) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(data), size));
}

// As SUMS writes it.
std::string Hexadecimal(uint32_t sum) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", sum);
  return text;
}

}  // namespace

std::unique_ptr<MappedFile> MappedFile::Open(const std::string& path,
                                             std::string* error) {
  std::unique_ptr<MappedFile> file(new MappedFile);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  bool ok = fd >= 0 && fstat(fd, &status) == 0;
  if (ok && status.st_size > 0) {
    file->size_ = static_cast<size_t>(status.st_size);
    void* const data =
        mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
    ok = data != MAP_FAILED;
    if (ok) file->data_ = static_cast<const char*>(data);
  }
  if (!ok) *error = path + ": " + std::strerror(errno);
  if (fd >= 0) close(fd);
  return ok ? std::move(file) : nullptr;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

bool OpenModelFiles(const std::string& folder, ModelFiles* files,
                    std::string* error) {
  const std::string sums_path = folder + "/SUMS";
  const std::unique_ptr<MappedFile> sums = MappedFile::Open(sums_path, error);
  if (sums == nullptr) return false;
  const std::string text(sums->data(), sums->size());
  const size_t end = text.rfind("end ");
  if (end == std::string::npos ||
      text.substr(end) !=
          "end " + Hexadecimal(Crc32(text.data(), end)) + "\n") {
    *error = sums_path + " is damaged: its last line does not fit";
    return false;
  }
  std::istringstream lines(text.substr(0, end));
  std::string crc;
  std::string name;
  uint64_t bytes = 0;
  for (std::string word; lines >> word >> crc >> bytes >> name;) {
    const std::string path = folder + "/" + name;
    std::unique_ptr<MappedFile> file = MappedFile::Open(path, error);
    if (file == nullptr) return false;
    if (file->size() != bytes ||
        Hexadecimal(Crc32(file->data(), file->size())) != crc) {
      *error = path + " is damaged: its size or sum is not that of SUMS";
      return false;
    }
    (*files)[name] = std::move(file);
  }
  return true;
}

}  // namespace oarlock::score
