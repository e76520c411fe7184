// A file system that remembers what of it has been synced, so that a test can
// let the machine lose power.
//
// Files lie on the disk of the test, below one folder. Beside them it keeps
// which names a folder had at its last sync, and how many bytes a file had at
// its last sync; contents only ever grow or are cut off, which is all that
// storage/ does. Files that are made without it, locks and markers for example,
// survive every crash.
//
//   before: write, sync, rename, ...      each change is a step
//   FailAfter(n)                          later steps fail: the process is dead
//   (the test ends what uses the files)
//   Crash(...)                            what is on the disk after that

#ifndef OARLOCK_TESTS_STORAGE_FORGETFUL_FILE_SYSTEM_H_
#define OARLOCK_TESTS_STORAGE_FORGETFUL_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "storage/file_system.h"

namespace oarlock::storage {

// Thread-safe but for Crash, during which nobody uses the files.
class ForgetfulFileSystem {
 public:
  // What survives of the things that were not synced.
  enum class Keep {
    kNothing,
    // Names, but not contents: the file that was renamed and is empty.
    kNames,
    // Each name and a part of each file's bytes, or not, by a seed.
    kSome,
  };

  // Makes `root`, or takes it with all it holds as synced.
  explicit ForgetfulFileSystem(const std::string& root);
  ~ForgetfulFileSystem();

  FileSystem* files();

  // Changes of files and names so far, failed ones left out.
  uint64_t num_steps() const;
  // From that number of further steps on, every change fails and syncs
  // nothing. FailAfter(0): from now on.
  void FailAfter(uint64_t num_steps);
  // Appends beyond so many further bytes find the disk full.
  void SetRoomBytes(uint64_t bytes);

  // Loses what was not synced; then changes succeed again, with room for all.
  void Crash(Keep keep, uint64_t seed = 0);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace oarlock::storage

#endif  // OARLOCK_TESTS_STORAGE_FORGETFUL_FILE_SYSTEM_H_
