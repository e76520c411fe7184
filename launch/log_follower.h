// What a process writes to its log, as it comes: `tail -f`.

#ifndef OARLOCK_LAUNCH_LOG_FOLLOWER_H_
#define OARLOCK_LAUNCH_LOG_FOLLOWER_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace oarlock::launch {

// Not thread-safe.
class LogFollower {
 public:
  // `out` outlives this. The file may come later.
  LogFollower(std::string path, std::FILE* out)
      : path_(std::move(path)), out_(out) {}

  // Copies what the file has got since the last call, and flushes it. A file
  // that cannot be read has got nothing; one that has become shorter is new.
  void Poll();

  // Skips what the file has now.
  void Skip();

 private:
  const std::string path_;
  std::FILE* const out_;
  // Bytes of the file that were copied.
  int64_t copied_ = 0;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_LOG_FOLLOWER_H_
