#include "collective/tcp_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collective/argument_checks.h"
#include "wire/value_format.h"

namespace oarlock::collective {
namespace {

constexpr const char* kKinds[] = {"all-reduce", "broadcast", "all-gather",
                                  "barrier"};
enum Kind : uint32_t { kAllReduce, kBroadcast, kAllGather, kBarrier };
// By Communicator::Element.
constexpr const char* kElements[] = {"float32", "float32 as float16",
                                     "float32 as bfloat16", "float64", "int64"};

// Two's complement: sums of integers are taken modulo 2^64.
void Add(const float* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}
void Add(const double* from, size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}
void Add(const uint64_t* from, size_t count, uint64_t* to) {
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

char* Bytes(void* pointer) { return static_cast<char*>(pointer); }

}  // namespace

// As it is sent: all ranks run the same program on one kind of machine.
struct TcpCommunicator::Header {
  uint32_t communicator;
  uint32_t kind;
  uint64_t sequence;
  uint64_t num_bytes;
  uint32_t detail;
  uint32_t reserved;

  friend bool operator==(const Header&, const Header&) = default;
};

absl::StatusOr<std::unique_ptr<Communicator>> TcpCommunicator::Connect(
    std::shared_ptr<TcpGroup> group, uint32_t index) {
  const Clock& clock = *group->clock;
  GroupMembership& membership = *group->membership;
  const absl::Time deadline = clock.Now() + group->connect_timeout;
  const uint32_t rank = group->rank, size = group->size;
  const uint32_t next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const auto fail = [&](uint32_t peer, const absl::Status& status) {
    // The group has failed, or the peer may just have.
    if (absl::IsCancelled(status)) return membership.status();
    if (absl::IsUnavailable(status)) return membership.FailBroken(peer, status);
    if (!absl::IsDeadlineExceeded(status)) return membership.Fail(status);
    return membership.Fail(absl::DeadlineExceededError(
        absl::StrCat("no connection with ", membership.NameOf(peer), " within ",
                     absl::FormatDuration(group->connect_timeout), ": ",
                     status.message(), "; is a firewall between the two?")));
  };
  absl::StatusOr<Socket> out = ConnectTo(clock, membership.addresses()[next],
                                         {membership.secret(), index, rank},
                                         membership.wake_fd(), deadline);
  if (!out.ok()) return fail(next, out.status());
  absl::StatusOr<Socket> in =
      group->acceptor->Await(index, previous, membership.wake_fd(), deadline);
  if (!in.ok()) return fail(previous, in.status());
  Ring ring(clock, *std::move(out), *std::move(in), membership.wake_fd());
  return absl::WrapUnique<Communicator>(
      new TcpCommunicator(std::move(group), index, std::move(ring)));
}

absl::Status TcpCommunicator::GroupStatus() const {
  return group_->membership->status();
}

absl::Status TcpCommunicator::Leave() {
  return group_->membership->Leave(group_->operation_timeout);
}

absl::StatusOr<std::unique_ptr<Communicator>> TcpCommunicator::Fork() {
  // Forks of several threads may come in another order on each rank.
  uint32_t index = rank() == 0 ? ++group_->num_communicators : 0;
  OARLOCK_RETURN_IF_ERROR(Broadcast(absl::MakeSpan(&index, 1), 0));
  return Connect(group_, index);
}

std::string TcpCommunicator::Describe(const Header& header) const {
  const char* const kind =
      header.kind < std::size(kKinds) ? kKinds[header.kind] : "unknown";
  std::string text = absl::StrCat("operation ", header.sequence, ", ", kind);
  if (header.kind == kBarrier) return text;
  absl::StrAppend(&text, " of ", header.num_bytes, " bytes");
  if (header.kind == kAllReduce && header.detail < std::size(kElements)) {
    absl::StrAppend(&text, " of ", kElements[header.detail]);
  }
  if (header.kind == kBroadcast) {
    absl::StrAppend(&text, " from rank ", header.detail);
  }
  return text;
}

absl::Status TcpCommunicator::Run(const Operation& operation, RingPlan plan) {
  OARLOCK_RETURN_IF_ERROR(GroupStatus());
  const absl::Time deadline = group_->clock->Now() + group_->operation_timeout;
  Header mine = {index_,
                 operation.kind,
                 group_->membership->BeginOperation(index_),
                 operation.num_bytes,
                 operation.detail,
                 0};
  Header theirs = {};
  plan.on_header = [&]() -> absl::Status {
    if (mine == theirs) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "is at ", Describe(mine), "; rank ", previous(), " is at ",
        Describe(theirs), "; all ranks have to call the same operations"));
  };
  plan.header_out = {reinterpret_cast<char*>(&mine), sizeof(mine)};
  plan.header_in = {reinterpret_cast<char*>(&theirs), sizeof(theirs)};
  return Conclude(ring_.Run(plan, deadline), mine);
}

absl::Status TcpCommunicator::Conclude(RingResult result,
                                       const Header& header) {
  GroupMembership& membership = *group_->membership;
  switch (result.end) {
    case RingEnd::kDone:
      return absl::OkStatus();
    case RingEnd::kWoken:
      return membership.status();
    case RingEnd::kRefused:
      return membership.Fail(result.status);
    case RingEnd::kNextBroke:
      return membership.FailBroken(next(), result.status);
    case RingEnd::kPreviousBroke:
      return membership.FailBroken(previous(), result.status);
    case RingEnd::kDeadline:
      break;
  }
  return membership.Fail(absl::DeadlineExceededError(absl::StrCat(
                             Describe(header), ", was not over within ",
                             absl::FormatDuration(group_->operation_timeout))),
                         index_, header.sequence);
}

TcpCommunicator::Range TcpCommunicator::ChunkOf(size_t num_values,
                                                int chunk) const {
  const size_t n = size();
  const size_t c = static_cast<size_t>((chunk % size() + size()) % size());
  // The first `num_values % n` chunks have one more.
  const size_t each = num_values / n, more = num_values % n;
  return {c * each + std::min(c, more), each + (c < more ? 1 : 0)};
}

absl::Status TcpCommunicator::AllGatherPieces(const Operation& operation,
                                              char* all, size_t bytes_each) {
  RingPlan plan;
  for (int step = 0; step < size() - 1; ++step) {
    const auto piece = [&](int of) {
      return RingPiece{
          all + static_cast<size_t>((of + size()) % size()) * bytes_each,
          bytes_each};
    };
    plan.out.push_back(piece(rank() - step));
    plan.in.push_back(piece(rank() - step - 1));
  }
  plan.lead = bytes_each;
  return Run(operation, std::move(plan));
}

absl::Status TcpCommunicator::Barrier() {
  gathered_.assign(size(), 0);
  return AllGatherPieces({kBarrier, 0, 0}, gathered_.data(), 1);
}

absl::Status TcpCommunicator::AllGatherBytes(const void* mine,
                                             size_t mine_bytes, void* all,
                                             size_t all_bytes) {
  OARLOCK_RETURN_IF_ERROR(CheckGatherSizes(mine_bytes, all_bytes, size()));
  if (mine_bytes > 0) {
    std::memmove(Bytes(all) + rank() * mine_bytes, mine, mine_bytes);
  }
  return AllGatherPieces({kAllGather, 0, mine_bytes}, Bytes(all), mine_bytes);
}

absl::Status TcpCommunicator::BroadcastBytes(void* bytes, size_t num_bytes,
                                             int root) {
  OARLOCK_RETURN_IF_ERROR(CheckRoot(root, size()));
  RingPlan plan;
  const RingPiece piece = {Bytes(bytes), num_bytes};
  if (next() != root) plan.out.push_back(piece);
  if (rank() == root) {
    plan.lead = num_bytes;
  } else {
    plan.in.push_back(piece);
  }
  return Run({kBroadcast, static_cast<uint32_t>(root), num_bytes},
             std::move(plan));
}

absl::Status TcpCommunicator::AllReduce(void* values, size_t num_values,
                                        Element element) {
  const size_t value_bytes = element == Element::kFloat    ? 4
                             : element == Element::kDouble ? 8
                             : element == Element::kInt64  ? 8
                                                           : 2;
  const Operation operation = {kAllReduce, static_cast<uint32_t>(element),
                               num_values * value_bytes};
  const bool small = operation.num_bytes <= kSmallBytes;
  switch (element) {
    case Element::kFloat: {
      auto* const at = static_cast<float*>(values);
      return small ? SumGathered(operation, at, num_values)
                   : SumInRing(operation, at, num_values);
    }
    case Element::kDouble: {
      auto* const at = static_cast<double*>(values);
      return small ? SumGathered(operation, at, num_values)
                   : SumInRing(operation, at, num_values);
    }
    case Element::kInt64: {
      auto* const at = static_cast<uint64_t*>(values);
      return small ? SumGathered(operation, at, num_values)
                   : SumInRing(operation, at, num_values);
    }
    case Element::kFloatAsFloat16:
    case Element::kFloatAsBfloat16: {
      auto* const at = static_cast<float*>(values);
      const v1::ValueFormat format =
          element == Element::kFloatAsFloat16 ? v1::FLOAT16 : v1::BFLOAT16;
      return small ? SumNarrowGathered(operation, at, num_values, format)
                   : SumNarrow(operation, at, num_values, format);
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status TcpCommunicator::SumInRing(const Operation& operation, T* values,
                                        size_t num_values) {
  RingPlan plan;
  const auto range = [&](int step) {
    return ChunkOf(num_values, rank() - step);
  };
  // The piece that goes out in a step is the one that came in before it. In
  // the first n - 1 steps what comes in is added, then it is final.
  const int num_steps = 2 * (size() - 1), num_sums = size() - 1;
  for (int step = 0; step < num_steps; ++step) {
    const Range out = range(step), in = range(step + 1);
    plan.out.push_back({Bytes(values + out.begin), out.size * sizeof(T)});
    plan.in.push_back({step < num_sums ? nullptr : Bytes(values + in.begin),
                       in.size * sizeof(T)});
  }
  plan.lead = plan.out[0].num_bytes;
  plan.element_bytes = sizeof(T);
  plan.process = [&](size_t piece, size_t offset, const char* bytes,
                     size_t num_bytes) {
    if (static_cast<int>(piece) >= num_sums) return;
    Add(reinterpret_cast<const T*>(bytes), num_bytes / sizeof(T),
        values + range(static_cast<int>(piece) + 1).begin + offset / sizeof(T));
  };
  return Run(operation, std::move(plan));
}

template <typename T>
absl::Status TcpCommunicator::SumGathered(const Operation& operation, T* values,
                                          size_t num_values) {
  gathered_.resize(operation.num_bytes * size());
  if (num_values > 0) {
    std::memcpy(gathered_.data() + rank() * operation.num_bytes, values,
                operation.num_bytes);
  }
  OARLOCK_RETURN_IF_ERROR(
      AllGatherPieces(operation, gathered_.data(), operation.num_bytes));
  const T* const all = reinterpret_cast<const T*>(gathered_.data());
  std::copy_n(all, num_values, values);
  for (int from = 1; from < size(); ++from) {
    Add(all + from * num_values, num_values, values);
  }
  return absl::OkStatus();
}

absl::Status TcpCommunicator::SumNarrow(const Operation& operation,
                                        float* values, size_t num_values,
                                        v1::ValueFormat format) {
  // What travels; `values` has this rank's own, then the sums.
  narrow_.resize(num_values);
  RingPlan plan;
  const auto range = [&](int step) {
    return ChunkOf(num_values, rank() - step);
  };
  const int num_steps = 2 * (size() - 1), num_sums = size() - 1;
  for (int step = 0; step < num_steps; ++step) {
    const Range out = range(step), in = range(step + 1);
    plan.out.push_back(
        {Bytes(narrow_.data() + out.begin), out.size * sizeof(uint16_t)});
    plan.in.push_back(
        {step < num_sums ? nullptr : Bytes(narrow_.data() + in.begin),
         in.size * sizeof(uint16_t)});
  }
  plan.lead = plan.out[0].num_bytes;
  plan.element_bytes = sizeof(uint16_t);
  plan.process = [&](size_t piece, size_t offset, const char* bytes,
                     size_t num_bytes) {
    const size_t begin =
        range(static_cast<int>(piece) + 1).begin + offset / sizeof(uint16_t);
    const size_t count = num_bytes / sizeof(uint16_t);
    const absl::Span<float> to(values + begin, count);
    if (static_cast<int>(piece) >= num_sums) {
      wire::WidenValues(format, bytes, to);
      return;
    }
    widened_.resize(count);
    wire::WidenValues(format, bytes, absl::MakeSpan(widened_));
    Add(widened_.data(), count, to.data());
    const absl::Span<uint16_t> sums(narrow_.data() + begin, count);
    wire::NarrowValues(format, to, sums);
    // The whole sum: this rank keeps what the others get.
    if (static_cast<int>(piece) == num_sums - 1) {
      wire::WidenValues(format, sums.data(), to);
    }
  };
  const Range own = range(0);
  wire::NarrowValues(format, absl::MakeConstSpan(values + own.begin, own.size),
                     absl::MakeSpan(narrow_.data() + own.begin, own.size));
  return Run(operation, std::move(plan));
}

absl::Status TcpCommunicator::SumNarrowGathered(const Operation& operation,
                                                float* values,
                                                size_t num_values,
                                                v1::ValueFormat format) {
  narrow_.resize(num_values * size());
  const absl::Span<float> result(values, num_values);
  wire::NarrowValues(
      format, result,
      absl::MakeSpan(narrow_.data() + rank() * num_values, num_values));
  OARLOCK_RETURN_IF_ERROR(
      AllGatherPieces(operation, Bytes(narrow_.data()), operation.num_bytes));
  wire::WidenValues(format, narrow_.data(), result);
  widened_.resize(num_values);
  for (int from = 1; from < size(); ++from) {
    wire::WidenValues(format, narrow_.data() + from * num_values,
                      absl::MakeSpan(widened_));
    Add(widened_.data(), num_values, values);
  }
  const absl::Span<uint16_t> rounded(narrow_.data(), num_values);
  wire::NarrowValues(format, result, rounded);
  wire::WidenValues(format, rounded.data(), result);
  return absl::OkStatus();
}

}  // namespace oarlock::collective
