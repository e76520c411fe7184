// What aggregators answer, for tests.

#ifndef OARLOCK_TESTS_PSERVER_SERVICE_PUSH_RESPONSES_H_
#define OARLOCK_TESTS_PSERVER_SERVICE_PUSH_RESPONSES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "pserver/aggregator/aggregator.h"

namespace oarlock::pserver {

// Of many calls, in the order in which they came. Thread-safe.
class PushResponses {
 public:
  struct Call {
    int times = 0;
    absl::Status status;
    uint32_t duplicate_groups = 0;
  };

  PushDone Expect(const std::string& name) {
    return [this, name](absl::StatusOr<PushOutcome> outcome) {
      absl::MutexLock lock(&mutex_);
      order_.push_back(name);
      Call& call = calls_[name];
      ++call.times;
      call.status = outcome.status();
      if (outcome.ok()) call.duplicate_groups = outcome->duplicate_groups;
    };
  }

  Call Get(const std::string& name) const {
    absl::MutexLock lock(&mutex_);
    const auto found = calls_.find(name);
    return found == calls_.end() ? Call() : found->second;
  }
  bool Has(const std::string& name) const { return Get(name).times > 0; }
  absl::StatusCode Code(const std::string& name) const {
    EXPECT_EQ(Get(name).times, 1) << name;
    return Get(name).status.code();
  }
  std::vector<std::string> order() const {
    absl::MutexLock lock(&mutex_);
    return order_;
  }
  size_t size() const { return order().size(); }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_SERVICE_PUSH_RESPONSES_H_
