// The limit of checkpoints: as many bytes to and from the disk with O_DIRECT,
// two threads with a file each. Nothing of the product.
//
//   raw_disk [--folder DIR] ...   see bench/common/repetitions.h

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "bench/common/repetitions.h"

namespace oarlock_bench {
namespace {

constexpr size_t kBlockBytes = 4 << 20;
constexpr int kThreads = 2;
constexpr int kBlocksOfThread = 1'440'000'000 / kThreads / kBlockBytes;
constexpr double kBytes = double{kBlockBytes} * kBlocksOfThread * kThreads;

void Must(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::exit(1);
}

class Disk {
 public:
  explicit Disk(std::string folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }
  ~Disk() { std::filesystem::remove_all(folder_); }

  Figures Write() {
    const double seconds = RunThreads(kThreads, [&](int thread) {
      std::filesystem::remove(Path(thread));
      const int fd = open(Path(thread).c_str(),
                          O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0644);
      Must(fd >= 0, "open");
      char* const block = NewBlock();
      for (int i = 0; i < kBlocksOfThread; ++i) {
        Must(write(fd, block, kBlockBytes) == kBlockBytes, "write");
      }
      Must(fsync(fd) == 0 && close(fd) == 0, "fsync");
      std::free(block);
    });
    written_ = true;
    return {{"bytes_per_second", kBytes / seconds}};
  }

  Figures Read() {
    if (!written_) Write();
    const double seconds = RunThreads(kThreads, [&](int thread) {
      const int fd = open(Path(thread).c_str(), O_RDONLY | O_DIRECT);
      Must(fd >= 0, "open");
      char* const block = NewBlock();
      for (int i = 0; i < kBlocksOfThread; ++i) {
        Must(read(fd, block, kBlockBytes) == kBlockBytes, "read");
      }
      close(fd);
      std::free(block);
    });
    return {{"bytes_per_second", kBytes / seconds}};
  }

 private:
  std::string Path(int thread) const {
    return folder_ + "/raw" + std::to_string(thread);
  }
  static char* NewBlock() {
    char* const block =
        static_cast<char*>(std::aligned_alloc(4096, kBlockBytes));
    unsigned state = 1;
    for (size_t i = 0; i < kBlockBytes; ++i) {
      state = state * 1664525 + 1013904223;
      block[i] = static_cast<char>(state >> 24);
    }
    return block;
  }

  const std::string folder_;
  bool written_ = false;
};

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT
  Disk disk(FlagValue(argc, argv, "--folder",
                      std::filesystem::temp_directory_path() / "raw_disk"));
  Repetitions repetitions;
  repetitions.Add("raw write", [&] { return disk.Write(); });
  repetitions.Add("raw read", [&] { return disk.Read(); });
  return repetitions.Run(argc, argv);
}
