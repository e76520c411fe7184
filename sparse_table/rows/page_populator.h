// Takes memory from the system ahead of its use.
//
// The first touch of a huge page makes the kernel clear 2 MiB, some tenths of a
// millisecond, in the middle of a push. A thread does it before.

#ifndef OARLOCK_SPARSE_TABLE_ROWS_PAGE_POPULATOR_H_
#define OARLOCK_SPARSE_TABLE_ROWS_PAGE_POPULATOR_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace oarlock::sparse_table {

// Thread-safe. Only advice: where the kernel cannot do it (before Linux 5.14)
// or has no memory, pages come at their first touch, as they would without.
class PagePopulator {
 public:
  // Of the private anonymous mapping that begins at `base`, a multiple of the
  // size of a huge page, and outlives this.
  explicit PagePopulator(std::byte* base) : base_(base) {}
  // Waits for the pages that are being taken.
  ~PagePopulator();
  PagePopulator(const PagePopulator&) = delete;
  PagePopulator& operator=(const PagePopulator&) = delete;

  // Asks for the bytes in [begin, end) from the base; what was asked for before
  // is left out. Returns at once. The thread starts with the first call.
  void Ask(size_t begin, size_t end);

  // Until all that was asked for is there, or has failed.
  void Wait();

 private:
  void Run();

  std::byte* const base_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Up to here pages have been asked for, and have been taken.
  size_t asked_ = 0;
  size_t taken_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_PAGE_POPULATOR_H_
