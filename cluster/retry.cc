#include "cluster/retry.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "wire/wire_limits.h"

namespace oarlock::cluster {
namespace {

absl::Status OutOfRange(absl::string_view field, absl::string_view value,
                        absl::string_view legal) {
  return absl::InvalidArgumentError(absl::StrCat(
      "RetryOptions.", field, " is ", value, "; it must be ", legal));
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

absl::Status RetryOptions::Validate() const {
  if (initial_backoff < absl::Milliseconds(1)) {
    return OutOfRange("initial_backoff", absl::FormatDuration(initial_backoff),
                      "at least 1ms");
  }
  if (!(multiplier >= 1.0 && multiplier <= 10.0)) {
    return OutOfRange("multiplier", absl::StrCat(multiplier), "in [1, 10]");
  }
  if (max_backoff < initial_backoff ||
      max_backoff == absl::InfiniteDuration()) {
    return OutOfRange("max_backoff", absl::FormatDuration(max_backoff),
                      "finite and at least initial_backoff");
  }
  if (!(jitter >= 0.0 && jitter < 1.0)) {
    return OutOfRange("jitter", absl::StrCat(jitter), "in [0, 1)");
  }
  if (total_deadline <= absl::ZeroDuration() ||
      total_deadline == absl::InfiniteDuration()) {
    return OutOfRange("total_deadline", absl::FormatDuration(total_deadline),
                      "positive and finite");
  }
  return absl::OkStatus();
}

Backoff::Backoff(const RetryOptions& options, uint64_t seed)
    : options_(options), random_(seed), next_(options.initial_backoff) {
  OARLOCK_CHECK(options.Validate().ok());
}

absl::Duration Backoff::Next() {
  const double factor = 1.0 + options_.jitter * (2.0 * random_.Uniform() - 1.0);
  const absl::Duration wait = next_ * factor;
  next_ = std::min(next_ * options_.multiplier, options_.max_backoff);
  return wait;
}

RetryAdvice AdviceFor(absl::StatusCode code) {
  OARLOCK_CHECK(code != absl::StatusCode::kOk);
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    // A server that ends cancels the calls that it has not begun. Who cancels a
    // call by itself knows.
    case absl::StatusCode::kCancelled:
      return RetryAdvice::kSameCall;
    case absl::StatusCode::kResourceExhausted:
      return RetryAdvice::kSameCallSlower;
    case absl::StatusCode::kAborted:
      return RetryAdvice::kRegisterAnew;
    case absl::StatusCode::kFailedPrecondition:
      return RetryAdvice::kAfterFix;
    default:
      return RetryAdvice::kNever;
  }
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // gRPC's own limit of a message; no waiting makes it smaller.
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
      absl::StrContains(status.error_message(), "message larger than max (")) {
    return absl::OutOfRangeError(
        absl::StrCat(status.error_message(), "; send less at a time"));
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message()));
}

grpc::ChannelArguments MakeChannelArguments() {
  grpc::ChannelArguments arguments;
  // Servers are peers of the job, never beyond a web proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // No lookups of a service configuration in DNS.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // One layer retries, and it is ours: it knows which calls have a name.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Clients that share a process do not share connections or backoff.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   Milliseconds(kMinReconnectBackoff));
  // The name misleads: it is how long an attempt may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   Milliseconds(kConnectionTimeout));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   Milliseconds(kMaxReconnectBackoff));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   Milliseconds(kKeepaliveInterval));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   Milliseconds(kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // GRPC_ARG_MINIMAL_STACK would save a few microseconds a call; it also drops
  // the filters that enforce deadlines and these limits.
  // Nobody looks at gRPC's own statistics of channels and calls.
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetMaxReceiveMessageSize(wire::kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(wire::kMaxMessageBytes);
  return arguments;
}

void ApplyServerArguments(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(wire::kMaxMessageBytes);
  builder->SetMaxSendMessageSize(wire::kMaxMessageBytes);
  // Nobody looks at gRPC's own statistics of channels and calls.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  // Without it a second server on the same port starts, and each gets some of
  // the connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                              Milliseconds(kKeepaliveInterval));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              Milliseconds(kKeepaliveTimeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Half the clients' interval, so that their probes are never "too many".
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      Milliseconds(kKeepaliveInterval / 2));
}

}  // namespace oarlock::cluster
