// A file descriptor that closes itself.

#ifndef OARLOCK_BASE_PROCESS_FILE_DESCRIPTOR_H_
#define OARLOCK_BASE_PROCESS_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace oarlock {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = other.Release();
    }
    return *this;
  }
  ~FileDescriptor() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) close(Release());
  }

 private:
  int fd_ = -1;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_PROCESS_FILE_DESCRIPTOR_H_
