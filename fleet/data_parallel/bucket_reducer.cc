#include "fleet/data_parallel/bucket_reducer.h"

#include "base/check.h"

namespace oarlock {

BucketReducer::BucketReducer(collective::Communicator* communicator,
                             size_t bucket_floats,
                             collective::WireFormat format, const Clock& clock)
    : communicator_(communicator),
      bucket_floats_(bucket_floats),
      format_(format),
      clock_(clock) {
  OARLOCK_CHECK(bucket_floats_ > 0);
  thread_ = std::thread([this] { Run(); });
}

BucketReducer::~BucketReducer() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void BucketReducer::Final(absl::Span<float> gradients, size_t begin) {
  const size_t end = handed_begin_.value_or(gradients.size());
  OARLOCK_CHECK(begin <= end);
  // Boundaries follow from the calls alone, not from when the thread looks, so
  // that they are the same on all ranks.
  if (!Takes(gradients.size(), begin)) return;
  handed_begin_ = begin;
  if (begin == end) return;
  absl::MutexLock lock(&mutex_);
  if (Done()) under_way_since_ = clock_.Now();
  buckets_.push_back(gradients.subspan(begin, end - begin));
}

absl::Status BucketReducer::Finish(absl::Span<float> gradients) {
  Final(gradients, 0);
  handed_begin_.reset();
  absl::MutexLock lock(&mutex_);
  if (!Done()) {
    const absl::Time start = clock_.Now();
    mutex_.Await(absl::Condition(this, &BucketReducer::Done));
    if (!status_.ok()) return status_;
    const absl::Time end = clock_.Now();
    times_.exposed += end - start;
    times_.communication += end - summed_at_;
  }
  return status_;
}

ExchangeTimes BucketReducer::times() const {
  absl::MutexLock lock(&mutex_);
  return times_;
}

void BucketReducer::Run() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &BucketReducer::HasWork));
    if (stopping_) return;
    const absl::Span<float> bucket = buckets_.front();
    buckets_.pop_front();
    // After an error the group is over, and so is every operation at once.
    if (!status_.ok()) continue;
    reducing_ = true;
    mutex_.Unlock();
    const absl::Status status = communicator_->AllReduceSum(bucket, format_);
    mutex_.Lock();
    reducing_ = false;
    if (!status.ok()) status_ = status;
    if (!Done()) continue;
    summed_at_ = clock_.Now();
    times_.communication += summed_at_ - under_way_since_;
  }
}

}  // namespace oarlock
