#include "sparse_table/rows/page_populator.h"

#include <sys/mman.h>

#include <algorithm>

namespace oarlock::sparse_table {
namespace {

// Pages taken at a time: a destructor waits for no more.
constexpr size_t kStepBytes = 2 << 20;

}  // namespace

PagePopulator::~PagePopulator() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PagePopulator::Ask(size_t begin, size_t end) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (end <= asked_) return;
    if (taken_ == asked_) taken_ = std::max(taken_, begin);
    asked_ = end;
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_all();
}

void PagePopulator::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return taken_ >= asked_; });
}

void PagePopulator::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || taken_ < asked_; });
    if (stopping_) return;
    const size_t begin = taken_;
    const size_t end = std::min(asked_, (begin / kStepBytes + 1) * kStepBytes);
    lock.unlock();
    // Unlike a write it changes nothing where others have written meanwhile.
#ifdef MADV_POPULATE_WRITE
    madvise(base_ + begin, end - begin, MADV_POPULATE_WRITE);
#endif
    lock.lock();
    taken_ = end;
    if (taken_ == asked_) changed_.notify_all();
  }
}

}  // namespace oarlock::sparse_table
