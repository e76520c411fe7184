// Limits the bytes of responses that are on the way: of one call, so that gRPC
// does not refuse to send them, and of all calls together.

#ifndef OARLOCK_PSERVER_RPC_RESPONSE_BUDGET_H_
#define OARLOCK_PSERVER_RPC_RESPONSE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "wire/wire_limits.h"

namespace oarlock::pserver {

// Thread-safe.
class ResponseBudget {
 public:
  // Of one call's responses, less what the framing of a batch may add.
  static constexpr uint64_t kMaxCallBytes =
      wire::kMaxMessageBytes - (uint64_t{256} << 10);

  // The responses of one call, a batch counts as one. Gives back what it took
  // when it goes. Used by one thread at a time.
  class Share {
   public:
    explicit Share(std::shared_ptr<ResponseBudget> budget)
        : budget_(std::move(budget)) {}
    ~Share() { budget_->bytes_.fetch_sub(taken_, std::memory_order_relaxed); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // For a response that will be made later. ResourceExhausted where the
    // call's responses would not fit into one message.
    absl::Status Plan(uint64_t bytes) {
      if (planned_ + bytes > kMaxCallBytes) {
        return absl::ResourceExhaustedError(absl::StrFormat(
            "the responses of a batch would have %d bytes; legal is up to %d; "
            "call again with fewer calls in a batch",
            planned_ + bytes, kMaxCallBytes));
      }
      planned_ += bytes;
      return absl::OkStatus();
    }
    // The same for a response that is made now. ResourceExhausted, too, where
    // all calls' responses would take more than max_response_bytes. A refused
    // one takes nothing, or it would keep out others until its call ends.
    absl::Status Take(uint64_t bytes) {
      if (absl::Status status = Plan(bytes); !status.ok()) return status;
      if (absl::Status status = budget_->Add(bytes); !status.ok()) {
        planned_ -= bytes;
        return status;
      }
      taken_ += bytes;
      return absl::OkStatus();
    }

   private:
    // A call may outlive its service.
    const std::shared_ptr<ResponseBudget> budget_;
    uint64_t planned_ = 0;
    uint64_t taken_ = 0;
  };

  explicit ResponseBudget(uint64_t max_response_bytes)
      : max_response_bytes_(max_response_bytes) {}

  uint64_t max_response_bytes() const { return max_response_bytes_; }
  uint64_t response_bytes() const {
    return bytes_.load(std::memory_order_relaxed);
  }

 private:
  absl::Status Add(uint64_t bytes) {
    uint64_t before = bytes_.load(std::memory_order_relaxed);
    do {
      // A response that is alone always has room.
      if (before > 0 && before + bytes > max_response_bytes_) {
        return absl::ResourceExhaustedError(absl::StrFormat(
            "responses that are on the way would have %d bytes; legal is up to "
            "%d; call again, slower",
            before + bytes, max_response_bytes_));
      }
    } while (!bytes_.compare_exchange_weak(before, before + bytes,
                                           std::memory_order_relaxed));
    return absl::OkStatus();
  }

  const uint64_t max_response_bytes_;
  std::atomic<uint64_t> bytes_ = 0;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_RPC_RESPONSE_BUDGET_H_
