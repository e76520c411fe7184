#include "collective/ring_exchange.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace oarlock::collective {
namespace {

// Pieces in one system call.
constexpr size_t kMaxVectors = 4;
// Bytes of one system call: the other direction waits meanwhile.
constexpr size_t kMaxCallBytes = size_t{1} << 20;

size_t TotalOf(const std::vector<RingPiece>& pieces) {
  size_t total = 0;
  for (const RingPiece& piece : pieces) total += piece.num_bytes;
  return total;
}

bool MayGoOn() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

// One run. A stream's position counts from its header's first byte.
class Ring::Exchange {
 public:
  Exchange(const Ring& ring, const RingPlan& plan)
      : ring_(ring),
        plan_(plan),
        out_bytes_(plan.header_out.num_bytes + TotalOf(plan.out)),
        in_bytes_(plan.header_in.num_bytes + TotalOf(plan.in)),
        ready_(std::min(out_bytes_, plan.header_out.num_bytes + plan.lead)) {
    SkipEmptyPieces();
  }

  RingResult Run(absl::Time deadline) {
    while (sent_ < out_bytes_ || received_ < in_bytes_) {
      moved_ = false;
      if (sent_ < ready_ && !Send()) return std::move(result_);
      if (received_ < in_bytes_ && !Receive()) return std::move(result_);
      if (!moved_ && !Sleep(deadline)) return std::move(result_);
    }
    return std::move(result_);
  }

 private:
  bool End(RingEnd end, absl::Status status = absl::OkStatus()) {
    result_ = {end, std::move(status)};
    return false;
  }

  // What is ready from sent_ on, in at most kMaxVectors.
  size_t Gather(iovec* vectors) const {
    size_t count = 0, begin = 0, room = kMaxCallBytes;
    const auto add = [&](const RingPiece& piece) {
      const size_t end = begin + piece.num_bytes;
      const size_t from = std::max(begin, sent_);
      const size_t to = std::min({end, ready_, from + room});
      if (from < to && count < kMaxVectors) {
        vectors[count++] = {piece.data + (from - begin), to - from};
        room -= to - from;
      }
      begin = end;
    };
    add(plan_.header_out);
    for (const RingPiece& piece : plan_.out) {
      if (begin >= ready_ || count == kMaxVectors || room == 0) break;
      add(piece);
    }
    return count;
  }

  bool Send() {
    iovec vectors[kMaxVectors];
    msghdr message = {};
    message.msg_iov = vectors;
    message.msg_iovlen = Gather(vectors);
    const ssize_t count =
        sendmsg(ring_.next_.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      return MayGoOn() || End(RingEnd::kNextBroke,
                              absl::UnavailableError(std::strerror(errno)));
    }
    sent_ += static_cast<size_t>(count);
    moved_ = true;
    return true;
  }

  bool Receive() {
    const size_t header = plan_.header_in.num_bytes;
    if (received_ < header) {
      return Read(plan_.header_in.data + received_, header - received_) &&
             (received_ < header || AcceptHeader());
    }
    const RingPiece& piece = plan_.in[piece_];
    // Where the next byte goes, and how many may come.
    char* const at = piece.data != nullptr ? piece.data + offset_ + carried_
                                           : ring_.scratch_.get() + carried_;
    size_t room = piece.num_bytes - offset_ - carried_;
    room = std::min(
        room, piece.data != nullptr ? kMaxCallBytes : kScratchBytes - carried_);
    const size_t before = received_;
    if (!Read(at, room)) return false;
    carried_ += received_ - before;
    Process(piece, at + (received_ - before) - carried_);
    return true;
  }

  bool AcceptHeader() {
    absl::Status status = plan_.on_header();
    return status.ok() || End(RingEnd::kRefused, std::move(status));
  }

  // `carried_` bytes at `bytes` wait for it; what is no whole element goes on
  // waiting.
  void Process(const RingPiece& piece, char* bytes) {
    const size_t whole = carried_ - carried_ % plan_.element_bytes;
    if (whole == 0) return;
    if (plan_.process) plan_.process(piece_, offset_, bytes, whole);
    offset_ += whole;
    carried_ -= whole;
    ready_ = std::min(out_bytes_, ready_ + whole);
    if (piece.data == nullptr && carried_ > 0) {
      std::memmove(ring_.scratch_.get(), bytes + whole, carried_);
    }
    if (offset_ == piece.num_bytes) {
      ++piece_;
      offset_ = 0;
      SkipEmptyPieces();
    }
  }

  void SkipEmptyPieces() {
    while (piece_ < plan_.in.size() && plan_.in[piece_].num_bytes == 0) {
      ++piece_;
    }
  }

  bool Read(char* to, size_t num_bytes) {
    const ssize_t count =
        recv(ring_.previous_.fd(), to, num_bytes, MSG_DONTWAIT);
    if (count == 0) {
      return End(RingEnd::kPreviousBroke,
                 absl::UnavailableError("the other side closed it"));
    }
    if (count < 0) {
      return MayGoOn() || End(RingEnd::kPreviousBroke,
                              absl::UnavailableError(std::strerror(errno)));
    }
    received_ += static_cast<size_t>(count);
    moved_ = true;
    return true;
  }

  bool Sleep(absl::Time deadline) {
    const absl::Duration left = deadline - ring_.clock_->Now();
    if (left <= absl::ZeroDuration()) return End(RingEnd::kDeadline);
    // A negative descriptor is skipped.
    pollfd fds[] = {
        {ring_.wake_fd_, POLLIN, 0},
        {sent_ < ready_ ? ring_.next_.fd() : -1, POLLOUT, 0},
        {received_ < in_bytes_ ? ring_.previous_.fd() : -1, POLLIN, 0}};
    const timespec timeout = absl::ToTimespec(std::min(left, absl::Hours(1)));
    ppoll(fds, 3, &timeout, nullptr);
    return fds[0].revents == 0 || End(RingEnd::kWoken);
  }

  const Ring& ring_;
  const RingPlan& plan_;
  const size_t out_bytes_;
  const size_t in_bytes_;
  size_t sent_ = 0;
  // Of `out`, what may be sent.
  size_t ready_;
  size_t received_ = 0;
  // Of the piece that comes in: processed, and received beyond it.
  size_t piece_ = 0;
  size_t offset_ = 0;
  size_t carried_ = 0;
  bool moved_ = false;
  RingResult result_;
};

Ring::Ring(const Clock& clock, Socket next, Socket previous, int wake_fd)
    : clock_(&clock),
      next_(std::move(next)),
      previous_(std::move(previous)),
      wake_fd_(wake_fd),
      scratch_(new char[kScratchBytes]) {}

RingResult Ring::Run(const RingPlan& plan, absl::Time deadline) {
  return Exchange(*this, plan).Run(deadline);
}

}  // namespace oarlock::collective
