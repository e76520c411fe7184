// The one motion that all operations consist of: bytes go out to the next rank
// of the ring while others come in from the one before, and what has come in
// and is processed may go out again.

#ifndef OARLOCK_COLLECTIVE_RING_EXCHANGE_H_
#define OARLOCK_COLLECTIVE_RING_EXCHANGE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "collective/sockets.h"

namespace oarlock::collective {

// Memory of a stream of bytes. Incoming: `data` null means that the bytes are
// looked at where they arrive and then dropped.
struct RingPiece {
  char* data = nullptr;
  size_t num_bytes = 0;
};

// Two streams, one out and one in, each a list of pieces:
//
//   out  | piece 0 | piece 1 | piece 2 | ...
//   in             | piece 0 | piece 1 | ...
//                  ^ after the first `lead` bytes of `out`
//
// Byte `lead + x` of `out` is sent when byte x of `in` has been processed.
// So a chunk travels on while its tail is still coming: nothing is cut into
// segments, and no thread waits for another.
struct RingPlan {
  // At most these first, both ways, before any piece: what the operation is.
  RingPiece header_out;
  RingPiece header_in;
  // OK: go on.
  std::function<absl::Status()> on_header;

  std::vector<RingPiece> out;
  size_t lead = 0;
  std::vector<RingPiece> in;
  // Incoming bytes are processed by multiples of it; all pieces of `in` are.
  size_t element_bytes = 1;
  // Called for each byte of `in` once, in order: `num_bytes` at `bytes`, which
  // are those from `offset` on of piece `piece`. Null: nothing is to be done.
  std::function<void(size_t piece, size_t offset, const char* bytes,
                     size_t num_bytes)>
      process;
};

// How an exchange ends other than well.
enum class RingEnd {
  kDone,
  // The group has failed.
  kWoken,
  // No time is left.
  kDeadline,
  // on_header refused; `status` says why.
  kRefused,
  // The connection broke; `status` says how.
  kNextBroke,
  kPreviousBroke,
};
struct RingResult {
  RingEnd end = RingEnd::kDone;
  absl::Status status;
};

// One thread at a time. The calling thread does all of the work; it sleeps
// while neither side can go on.
class Ring {
 public:
  // `wake_fd` becomes readable when the group fails. `clock` outlives it.
  Ring(const Clock& clock, Socket next, Socket previous, int wake_fd);

  RingResult Run(const RingPlan& plan, absl::Time deadline);

 private:
  // Bytes that are looked at where they arrive, at most so many at once: they
  // and their counterpart fit into the second cache.
  static constexpr size_t kScratchBytes = size_t{256} << 10;

  class Exchange;

  const Clock* clock_;
  Socket next_;
  Socket previous_;
  int wake_fd_;
  std::unique_ptr<char[]> scratch_;
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_RING_EXCHANGE_H_
