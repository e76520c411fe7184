#include "client/data_plane.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "cluster/wire_version.h"
#include "wire/wire_limits.h"

namespace oarlock::client {
namespace {

const char* PathOf(wire::BatchMethod method) {
  switch (method) {
    case wire::BatchMethod::kPullSparse:
      return "/oarlock.v1.ParameterService/PullSparse";
    case wire::BatchMethod::kPushSparse:
      return "/oarlock.v1.ParameterService/PushSparse";
    case wire::BatchMethod::kPullDense:
      return "/oarlock.v1.ParameterService/PullDense";
    case wire::BatchMethod::kPushDense:
      return "/oarlock.v1.ParameterService/PushDense";
  }
  return "";
}
constexpr char kBatchPath[] = "/oarlock.v1.ParameterService/Batch";

// One attempt to connect to a server that has come back; the client may be
// closed between two.
constexpr absl::Duration kReturnAttempt = absl::Seconds(1);

bool IsOtherGeneration(const absl::Status& status) {
  return status.code() == absl::StatusCode::kFailedPrecondition &&
         absl::StartsWith(status.message(), cluster::kOtherGeneration);
}

absl::Status CancelledByCaller() {
  return absl::CancelledError("the operation was cancelled");
}

bool MayHelp(const absl::Status& status) {
  const cluster::RetryAdvice advice = cluster::AdviceFor(status.code());
  return advice == cluster::RetryAdvice::kSameCall ||
         advice == cluster::RetryAdvice::kSameCallSlower;
}

}  // namespace

// Calls that travel together, and the tag under which they wait.
struct DataPlane::Attempt : CompletionThread::Event {
  explicit Attempt(DataPlane* plane) : plane(plane) {}
  void Run() override { plane->OnEvent(this); }

  DataPlane* const plane;
  ServerIndex server;
  // At least one.
  std::vector<Call> calls;
  // The incarnation that they are encoded for.
  Generation generation;
  // One for each.
  std::vector<grpc::ByteBuffer> requests;
  // Of all of them; not valid: to be made.
  grpc::ByteBuffer request;
  absl::Duration timeout;
  // The owner of all of its calls; null: they have several, or none.
  const void* owner = nullptr;
  // Guarded by mutex_.
  bool cancelled = false;

  // Of the attempt under way. The context is replaced under mutex_, because
  // the destructor cancels through it.
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer response;
  grpc::Status status;

  absl::Time started;

  // Between two attempts.
  bool backing_off = false;
  std::optional<cluster::Backoff> backoff;
  absl::Time give_up;
};

DataPlane::DataPlane(const ServerConnections* connections,
                     CompletionThread* completions, OnReturn on_return)
    : connections_(connections),
      on_return_(std::move(on_return)),
      queue_(completions->queue()),
      waiting_(connections->servers().size()) {
  for (const ServerConnections::Server& server : connections->servers()) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(server.channel));
  }
  returns_thread_ = std::thread(
      [this] { connections_->RunThread([this] { RunReturns(); }); });
}

DataPlane::~DataPlane() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    for (Attempt* attempt : attempts_) {
      if (attempt->context != nullptr) attempt->context->TryCancel();
    }
  }
  for (uint32_t i = 0; i < stubs_.size(); ++i) {
    Send(ServerIndex(i), std::vector<Call>(), absl::ZeroDuration());
  }
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](absl::flat_hash_set<Attempt*>* attempts) {
          return attempts->empty();
        },
        &attempts_));
  }
  returns_thread_.join();
}

void DataPlane::Send(ServerIndex server, std::vector<Call> calls,
                     absl::Duration attempt_timeout) {
  for (Call& call : TakeWaiting(server)) calls.push_back(std::move(call));
  const Generation generation = connections_->generation(server);
  std::vector<grpc::ByteBuffer> requests;
  requests.reserve(calls.size());
  for (Call& call : calls) requests.push_back(call.encode(generation));
  for (size_t begin = 0; begin < calls.size();) {
    auto* attempt = new Attempt(this);
    attempt->server = server;
    attempt->timeout = attempt_timeout;
    attempt->generation = generation;
    size_t num_bytes = 0;
    size_t num_response_bytes = 0;
    do {
      num_bytes += requests[begin].Length();
      num_response_bytes += calls[begin].response_bytes;
      attempt->requests.push_back(std::move(requests[begin]));
      attempt->calls.push_back(std::move(calls[begin++]));
    } while (begin < calls.size() &&
             attempt->calls.size() < wire::kMaxCallsPerBatch &&
             num_bytes + requests[begin].Length() <=
                 wire::kPreferredMessageBytes &&
             num_response_bytes + calls[begin].response_bytes <=
                 kMaxBatchResponseBytes);
    attempt->owner = attempt->calls[0].owner;
    for (const Call& call : attempt->calls) {
      if (call.owner != attempt->owner) attempt->owner = nullptr;
    }
    bool closing;
    {
      absl::MutexLock lock(&mutex_);
      closing = closing_;
      attempts_.insert(attempt);
    }
    if (closing) {
      Finish(attempt, absl::CancelledError("the client is being closed"));
    } else {
      Start(attempt);
    }
  }
}

void DataPlane::Send(ServerIndex server, Call call,
                     absl::Duration attempt_timeout) {
  std::vector<Call> calls;
  calls.push_back(std::move(call));
  Send(server, std::move(calls), attempt_timeout);
}

void DataPlane::Enqueue(ServerIndex server, Call call) {
  {
    absl::MutexLock lock(&mutex_);
    if (!closing_) {
      waiting_[server.value()].push_back(std::move(call));
      return;
    }
  }
  call.on_response(absl::CancelledError("the client is being closed"));
}

std::vector<DataPlane::Call> DataPlane::TakeWaiting(ServerIndex server) {
  absl::MutexLock lock(&mutex_);
  return std::exchange(waiting_[server.value()], {});
}

void DataPlane::Flush(const void* owner) {
  std::vector<ServerIndex> servers;
  {
    absl::MutexLock lock(&mutex_);
    for (uint32_t i = 0; i < waiting_.size(); ++i) {
      const std::vector<Call>& calls = waiting_[i];
      if (std::any_of(calls.begin(), calls.end(), [owner](const Call& call) {
            return call.owner == owner;
          })) {
        servers.push_back(ServerIndex(i));
      }
    }
  }
  for (const ServerIndex server : servers) {
    Send(server, std::vector<Call>(), connections_->options().rpc_timeout);
  }
}

void DataPlane::Cancel(const void* owner) {
  std::vector<Call> dropped;
  std::vector<Attempt*> ended;
  {
    absl::MutexLock lock(&mutex_);
    for (std::vector<Call>& waiting : waiting_) {
      const auto begin = std::stable_partition(
          waiting.begin(), waiting.end(),
          [owner](const Call& call) { return call.owner != owner; });
      std::move(begin, waiting.end(), std::back_inserter(dropped));
      waiting.erase(begin, waiting.end());
    }
    for (auto& [server, attempts] : returning_) {
      const auto begin = std::stable_partition(
          attempts.begin(), attempts.end(),
          [owner](const Attempt* each) { return each->owner != owner; });
      std::copy(begin, attempts.end(), std::back_inserter(ended));
      attempts.erase(begin, attempts.end());
    }
    for (Attempt* attempt : attempts_) {
      if (attempt->owner != owner) continue;
      attempt->cancelled = true;
      if (attempt->context != nullptr) attempt->context->TryCancel();
    }
  }
  for (Call& call : dropped) call.on_response(CancelledByCaller());
  for (Attempt* attempt : ended) Finish(attempt, CancelledByCaller());
}

void DataPlane::EncodeFor(Generation generation, Attempt* attempt) {
  attempt->generation = generation;
  for (size_t i = 0; i < attempt->calls.size(); ++i) {
    attempt->requests[i] = attempt->calls[i].encode(generation);
  }
  attempt->request.Clear();
}

void DataPlane::Start(Attempt* attempt) {
  const bool single = attempt->calls.size() == 1;
  const Generation generation = connections_->generation(attempt->server);
  if (attempt->generation != generation) EncodeFor(generation, attempt);
  if (!attempt->request.Valid()) {
    if (single) {
      attempt->request = attempt->requests[0];
    } else {
      std::vector<wire::BatchedCall> batch;
      for (size_t i = 0; i < attempt->calls.size(); ++i) {
        batch.push_back({attempt->calls[i].method, attempt->requests[i]});
      }
      attempt->request = wire::EncodeBatchRequest(batch);
    }
  }
  attempt->started = connections_->clock().Now();
  auto context = std::make_unique<grpc::ClientContext>();
  connections_->Prepare(context.get(), attempt->timeout);
  attempt->backing_off = false;
  attempt->response.Clear();
  {
    absl::MutexLock lock(&mutex_);
    attempt->context = std::move(context);
    if (closing_ || attempt->cancelled) attempt->context->TryCancel();
  }
  attempt->reader = stubs_[attempt->server.value()]->PrepareUnaryCall(
      attempt->context.get(),
      single ? PathOf(attempt->calls[0].method) : kBatchPath, attempt->request,
      queue_);
  attempt->reader->StartCall();
  attempt->reader->Finish(&attempt->response, &attempt->status,
                          static_cast<CompletionThread::Event*>(attempt));
}

void DataPlane::OnEvent(Attempt* attempt) {
  if (attempt->backing_off) {
    Start(attempt);
  } else {
    OnAttemptEnd(attempt);
  }
}

void DataPlane::OnAttemptEnd(Attempt* attempt) {
  if (!attempt->status.ok()) {
    absl::Status status = cluster::FromGrpc(attempt->status);
    if (IsOtherGeneration(status)) return AwaitReturn(attempt);
    // A server that is shut down cancels the calls that it is at work on.
    if (absl::IsCancelled(status)) {
      status = absl::UnavailableError(
          absl::StrCat("the server cancelled the call: ", status.message()));
    }
    if (!BackOff(attempt, &status)) Finish(attempt, status);
    return;
  }
  if (attempt->calls.size() > 1) return OnBatchAnswered(attempt);
  attempt->request.Clear();
  Answer(attempt, 0, std::move(attempt->response));
  attempt->calls.clear();
  Finish(attempt, absl::OkStatus());
}

void DataPlane::Answer(Attempt* attempt, size_t index,
                       absl::StatusOr<grpc::ByteBuffer> response) {
  Call& call = attempt->calls[index];
  call.encode = nullptr;
  attempt->requests[index].Clear();
  call.on_response(std::move(response));
}

void DataPlane::OnBatchAnswered(Attempt* attempt) {
  absl::StatusOr<std::vector<absl::StatusOr<grpc::ByteBuffer>>> responses =
      wire::DecodeBatchResponse(attempt->response);
  if (responses.ok() && responses->size() != attempt->calls.size()) {
    responses = absl::InternalError(
        absl::StrCat("a batch of ", attempt->calls.size(),
                     " calls was answered with ", responses->size()));
  }
  if (!responses.ok()) {
    return Finish(attempt, Annotate(responses.status(),
                                    connections_->Name(attempt->server)));
  }
  attempt->request.Clear();
  std::vector<Call> again;
  std::vector<grpc::ByteBuffer> requests;
  for (size_t i = 0; i < attempt->calls.size(); ++i) {
    Call& call = attempt->calls[i];
    absl::StatusOr<grpc::ByteBuffer>& response = (*responses)[i];
    if (!response.ok() &&
        (MayHelp(response.status()) || IsOtherGeneration(response.status()))) {
      again.push_back(std::move(call));
      requests.push_back(std::move(attempt->requests[i]));
      attempt->status = cluster::ToGrpc(response.status());
      continue;
    }
    if (!response.ok()) {
      response =
          Annotate(response.status(), connections_->Name(attempt->server));
    }
    Answer(attempt, i, std::move(response));
  }
  attempt->calls = std::move(again);
  attempt->requests = std::move(requests);
  if (attempt->calls.empty()) return Finish(attempt, absl::OkStatus());
  absl::Status status = cluster::FromGrpc(attempt->status);
  if (IsOtherGeneration(status)) return AwaitReturn(attempt);
  if (!BackOff(attempt, &status)) Finish(attempt, status);
}

bool DataPlane::BackOff(Attempt* attempt, absl::Status* status) {
  const absl::Time now = connections_->clock().Now();
  const absl::Duration retry_timeout = connections_->retry_timeout();
  // A call that the server was long at work on, as it is in a round, fails for
  // the first time.
  const bool was_served = now - attempt->started > retry_timeout &&
                          !absl::IsDeadlineExceeded(*status);
  if (!attempt->backoff.has_value() || was_served) {
    attempt->backoff.emplace(cluster::kAwayRetries,
                             absl::ToUnixNanos(now) ^ attempt->server.value());
    attempt->give_up = now + retry_timeout;
  }
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_) {
      ended = absl::CancelledError("the client is being closed");
    } else if (attempt->cancelled) {
      ended = CancelledByCaller();
    }
  }
  if (!ended.ok() || !MayHelp(*status) || now >= attempt->give_up) {
    if (!ended.ok()) *status = ended;
    const bool gave_up = MayHelp(*status);
    *status = Annotate(*status, connections_->Name(attempt->server));
    if (gave_up) {
      *status =
          Annotate(*status, absl::StrCat("gave up after ",
                                         absl::FormatDuration(retry_timeout),
                                         " of retries"));
    }
    return false;
  }
  // Until the channel's state changes, at most for the backoff. Watching makes
  // it connect: gRPC works on a connection only while somebody waits for it.
  attempt->backing_off = true;
  grpc::Channel& channel =
      *connections_->servers()[attempt->server.value()].channel;
  channel.NotifyOnStateChange(channel.GetState(/*try_to_connect=*/true),
                              GrpcDeadline(attempt->backoff->Next()), queue_,
                              attempt);
  return true;
}

void DataPlane::AwaitReturn(Attempt* attempt) {
  bool closing;
  {
    absl::MutexLock lock(&mutex_);
    closing = closing_;
    if (!closing &&
        connections_->generation(attempt->server) == attempt->generation) {
      returning_[attempt->server].push_back(attempt);
      return;
    }
  }
  if (closing) {
    Finish(attempt, absl::CancelledError("the client is being closed"));
  } else {
    Start(attempt);
  }
}

void DataPlane::RunReturns() {
  for (;;) {
    ServerIndex server;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || !returning_.empty();
      };
      mutex_.Await(absl::Condition(&ready));
      if (returning_.empty()) return;
      server = returning_.begin()->first;
    }
    const absl::StatusOr<Generation> generation = Return(server);
    std::vector<Attempt*> attempts;
    {
      // In one step, so that whoever comes later sees the new generation.
      absl::MutexLock lock(&mutex_);
      if (generation.ok()) connections_->Adopt(server, *generation);
      attempts = std::move(returning_[server]);
      returning_.erase(server);
    }
    for (Attempt* attempt : attempts) {
      if (generation.ok()) {
        attempt->backoff.reset();
        Start(attempt);
      } else {
        Finish(attempt, generation.status());
      }
    }
  }
}

absl::StatusOr<Generation> DataPlane::Return(ServerIndex server) {
  const absl::Time deadline =
      connections_->clock().Now() + connections_->retry_timeout();
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (closing_) return absl::CancelledError("the client is being closed");
    }
    const absl::StatusOr<v1::ConnectResponse> response =
        connections_->ConnectAnew(server, kReturnAttempt);
    absl::Status status = response.status();
    if (status.ok()) {
      const Generation generation(response->server_generation());
      if (generation == connections_->generation(server)) {
        return absl::FailedPreconditionError(
            absl::StrCat(connections_->Name(server),
                         " answers under generation ", generation.value(),
                         " and under others; run one server at an address"));
      }
      if (on_return_ != nullptr) status = on_return_(server, *response);
      if (status.ok()) return generation;
    }
    if (!MayHelp(status) || connections_->clock().Now() >= deadline)
      return status;
  }
}

void DataPlane::Finish(Attempt* attempt, const absl::Status& status) {
  attempt->request.Clear();
  for (size_t i = 0; i < attempt->calls.size(); ++i) Answer(attempt, i, status);
  absl::MutexLock lock(&mutex_);
  attempts_.erase(attempt);
  delete attempt;
}

}  // namespace oarlock::client
