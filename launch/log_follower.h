// What a process writes to its log, as it comes: `tail -f`.

#ifndef OARLOCK_LAUNCH_LOG_FOLLOWER_H_
#define OARLOCK_LAUNCH_LOG_FOLLOWER_H_

#include <cstdint>
#include <string>
#include <utility>

namespace oarlock::launch {

// Not thread-safe.
class LogFollower {
 public:
  // To the descriptor `out`. The file may come later.
  LogFollower(std::string path, int out) : path_(std::move(path)), out_(out) {}

  // Copies what the file has got since the last call, as much as there is room
  // for: the rest comes with the next call. A file that cannot be read has got
  // nothing; one that has become shorter is new.
  void Poll();
  // Copies all of it, while somebody reads: gives up when there is no room for
  // a second. Bytes that were not copied.
  int64_t Finish();

  // Skips what the file has now.
  void Skip();

 private:
  const std::string path_;
  const int out_;
  // Bytes of the file that were copied.
  int64_t copied_ = 0;
};

}  // namespace oarlock::launch

#endif  // OARLOCK_LAUNCH_LOG_FOLLOWER_H_
