#include "capi/client.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "capi/json.h"
#include "capi/library.h"
#include "client/grpc_job_client.h"
#include "cluster/environment.h"
#include "cluster/security.h"
#include "proto/v1/coordinator_workers.pb.h"
#include "wire/value_format.h"

namespace oarlock::capi {
namespace {

constexpr double kMaxTimeoutSeconds = 1e6;

absl::StatusOr<absl::Duration> Seconds(double seconds, absl::Duration otherwise,
                                       const char* name) {
  if (seconds == 0) return otherwise;
  if (seconds > 0 && seconds <= kMaxTimeoutSeconds) {
    return absl::Seconds(seconds);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", seconds, "; legal are 0 to ", kMaxTimeoutSeconds));
}

absl::StatusOr<v1::ValueFormat> Format(const std::string& name) {
  if (name.empty()) return v1::FLOAT32;
  return wire::ParseValueFormat(name);
}

absl::StatusOr<v1::RegisterWorkerRequest::OnDeath> OnDeath(
    const std::string& text) {
  if (text.empty()) return v1::RegisterWorkerRequest::ON_DEATH_UNSPECIFIED;
  if (text == "repair") return v1::RegisterWorkerRequest::RECOVER;
  if (text == "cut") return v1::RegisterWorkerRequest::CUT;
  return absl::InvalidArgumentError(
      absl::StrCat("on_death is '", text, "'; legal are repair and cut"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Client>> Client::Create(
    const v1::ClientConfig& config) {
  client::ConnectionOptions options;
  options.endpoints.assign(config.server_endpoints().begin(),
                           config.server_endpoints().end());
  if (options.endpoints.empty()) {
    return absl::InvalidArgumentError(
        "server_endpoints is empty; name at least one server, for example "
        "127.0.0.1:6174");
  }
  if (const std::string& job_id = config.job_id(); !job_id.empty()) {
    options.job_id = job_id;
  }
  options.client_name = config.client_name();
  OARLOCK_ASSIGN_OR_RETURN(
      options.connect_timeout,
      Seconds(config.connect_timeout_s(), options.connect_timeout,
              "connect_timeout_s"));
  OARLOCK_ASSIGN_OR_RETURN(
      options.rpc_timeout,
      Seconds(config.rpc_timeout_s(), options.rpc_timeout, "rpc_timeout_s"));
  OARLOCK_ASSIGN_OR_RETURN(
      options.server_restart_timeout,
      Seconds(config.server_restart_timeout_s(), options.server_restart_timeout,
              "server_restart_timeout_s"));
  options.accept_loss = config.accept_loss();
  cluster::SecurityOptions security;
  security.insecure = config.insecure();
  security.tls_cert_file = config.tls_cert_file();
  security.tls_key_file = config.tls_key_file();
  security.tls_ca_file = config.tls_ca_file();
  security.token_file = config.token_file();
  OARLOCK_ASSIGN_OR_RETURN(
      options.security,
      cluster::SecurityFrom(cluster::ReadEnvironment(), security));
  client::ValueFormats formats;
  OARLOCK_ASSIGN_OR_RETURN(formats.pull, Format(config.pull_format()));
  OARLOCK_ASSIGN_OR_RETURN(formats.push, Format(config.push_format()));
  auto client = absl::WrapUnique(new Client(std::move(options), formats));
  std::shared_ptr<Client> shared = std::move(client);
  // Its threads call it, and have ended when it goes.
  shared->options_.on_broken = [raw = shared.get()](const std::string& what) {
    raw->Break(what);
  };
  return shared;
}

std::shared_ptr<Operation> Client::NewOperation(
    const Operation::Options& options) {
  auto operation =
      std::make_shared<Operation>(event_, options, *options_.clocks.monotonic);
  absl::MutexLock lock(&mutex_);
  if (operations_.size() == operations_.capacity()) {
    std::erase_if(operations_, [](const std::weak_ptr<Operation>& each) {
      const std::shared_ptr<Operation> there = each.lock();
      return there == nullptr || there->done();
    });
    operations_.reserve(std::max<size_t>(16, 2 * operations_.size()));
  }
  operations_.push_back(operation);
  return operation;
}

Outcome Client::FindSession(std::shared_ptr<Session>* session) const {
  absl::MutexLock lock(&mutex_);
  if (!broken_.empty()) return {OARLOCK_BROKEN, broken_};
  if (state_ != State::kOpen) {
    return absl::FailedPreconditionError(
        state_ == State::kNew || state_ == State::kConnecting
            ? "the client is not connected; connect or join first"
            : "the client has left the job; join again, or make a new one");
  }
  *session = session_;
  return {};
}

absl::Status Client::StartThread(
    std::shared_ptr<Operation> operation,
    std::function<absl::StatusOr<std::string>()> run) {
  if (busy_) {
    return absl::FailedPreconditionError(
        "the client connects, joins rounds or leaves already; wait for that");
  }
  // It has done its last.
  if (thread_.joinable()) thread_.join();
  busy_ = true;
  thread_ = std::thread(
      [this, operation = std::move(operation), run = std::move(run)] {
        absl::StatusOr<std::string> result = absl::InternalError("broken");
        try {
          result = run();
        } catch (const std::exception& failure) {
          Break(failure.what());
        }
        {
          absl::MutexLock lock(&mutex_);
          busy_ = false;
        }
        // Who waits for it begins the next one at once.
        if (!result.ok()) return operation->Finish(result.status());
        operation->Finish({}, *std::move(result));
      });
  return absl::OkStatus();
}

absl::Status Client::Connect(const v1::JoinConfig* join,
                             std::shared_ptr<Operation> operation) {
  absl::MutexLock lock(&mutex_);
  if (state_ != State::kNew && state_ != State::kLeft) {
    return absl::FailedPreconditionError(
        "the client is connected; leave first, or make another one");
  }
  std::shared_ptr<v1::JoinConfig> config =
      join == nullptr ? nullptr : std::make_shared<v1::JoinConfig>(*join);
  if (options_.client_name.empty()) {
    options_.client_name =
        join == nullptr ? "reader" : absl::StrCat("worker ", join->rank());
  }
  OARLOCK_RETURN_IF_ERROR(
      StartThread(operation, [this, config, raw = operation.get()] {
        return RunConnect(config.get(), raw);
      }));
  state_ = State::kConnecting;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Client::RunConnect(const v1::JoinConfig* join,
                                               Operation* operation) {
  operation->SetCancel([this] {
    absl::MutexLock lock(&mutex_);
    if (connecting_ != nullptr) connecting_->Close();
  });
  absl::StatusOr<std::string> result = DoConnect(join);
  absl::MutexLock lock(&mutex_);
  // Who failed may try again.
  if (state_ == State::kConnecting) {
    state_ = result.ok() ? State::kOpen : State::kNew;
  }
  return result;
}

absl::StatusOr<std::string> Client::DoConnect(const v1::JoinConfig* join) {
  OARLOCK_ASSIGN_OR_RETURN(const auto on_death,
                           OnDeath(join == nullptr ? "" : join->on_death()));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<client::ServerConnections> servers,
                           client::ServerConnections::Create(options_));
  const auto set_connecting = [this](client::ServerConnections* servers) {
    absl::MutexLock lock(&mutex_);
    const bool closed = state_ == State::kClosed;
    connecting_ = closed ? nullptr : servers;
    return !closed;
  };
  if (!set_connecting(servers.get())) {
    return absl::CancelledError("the client was freed");
  }
  absl::Status status = servers->Open();
  std::unique_ptr<client::GrpcJobClient> job;
  v1::RegisterWorkerResponse registered;
  if (status.ok() && join != nullptr) {
    v1::RegisterWorkerRequest request;
    request.set_worker_index(join->rank());
    request.set_min_workers(join->world());
    request.set_max_workers(join->world());
    request.set_only_if_free(!join->take_over());
    request.set_on_death(on_death);
    request.set_run_name(join->run());
    for (const auto& [name, value] : join->settings()) {
      v1::JobDescription::Flag* const setting = request.add_settings();
      setting->set_name(name);
      setting->set_value(value);
      setting->set_given(true);
    }
    auto worker =
        client::GrpcJobClient::Register(servers.get(), std::move(request));
    status = worker.status();
    if (worker.ok()) {
      job = *std::move(worker);
      registered = job->registration();
    }
  }
  if (!set_connecting(nullptr) && status.ok()) {
    status = absl::CancelledError("the client was freed");
  }
  if (!status.ok()) {
    // Its heartbeat is waited for.
    servers->Close();
    return status;
  }
  auto session =
      std::make_shared<Session>(std::move(servers), std::move(job), formats_);
  {
    absl::MutexLock lock(&mutex_);
    // Of one that has left.
    session.swap(session_);
  }
  if (session != nullptr) session->Close();
  return join == nullptr ? "{}" : ToJson(registered);
}

absl::Status Client::SetRounds(bool joins,
                               std::shared_ptr<Operation> operation) {
  absl::MutexLock lock(&mutex_);
  if (state_ != State::kOpen) {
    return absl::FailedPreconditionError("the client is not connected");
  }
  return StartThread(std::move(operation), [session = session_, joins] {
    return session->SetRounds(joins);
  });
}

absl::Status Client::SumEvaluation(const WorkId& work,
                                   std::shared_ptr<Operation> operation) {
  absl::MutexLock lock(&mutex_);
  if (state_ != State::kOpen) {
    return absl::FailedPreconditionError("the client is not connected");
  }
  return StartThread(std::move(operation), [session = session_, work] {
    return session->SumEvaluation(work);
  });
}

absl::Status Client::Leave(const Session::Leaving& leaving,
                           std::shared_ptr<Operation> operation) {
  absl::MutexLock lock(&mutex_);
  if (state_ != State::kOpen) {
    return absl::FailedPreconditionError("the client is not connected");
  }
  if (!session_->is_worker()) {
    return absl::FailedPreconditionError(
        "a reader has no part in the job that it could leave; free it");
  }
  OARLOCK_RETURN_IF_ERROR(
      StartThread(operation,
                  [this, session = session_, leaving,
                   raw = operation.get()]() -> absl::StatusOr<std::string> {
                    raw->SetCancel([session] { session->Close(); });
                    const absl::Status status = session->Leave(leaving);
                    absl::MutexLock lock(&mutex_);
                    if (state_ == State::kLeaving) state_ = State::kLeft;
                    OARLOCK_RETURN_IF_ERROR(status);
                    return "{}";
                  }));
  state_ = State::kLeaving;
  return absl::OkStatus();
}

void Client::Break(const std::string& what) {
  std::vector<std::weak_ptr<Operation>> operations;
  {
    absl::MutexLock lock(&mutex_);
    if (broken_.empty()) broken_ = what;
    operations.swap(operations_);
  }
  for (const std::weak_ptr<Operation>& each : operations) {
    if (const auto operation = each.lock()) {
      operation->Finish({OARLOCK_BROKEN, what});
    }
  }
}

void Client::Close() {
  std::shared_ptr<Session> session;
  std::thread thread;
  bool broken;
  {
    absl::MutexLock lock(&mutex_);
    state_ = State::kClosed;
    if (connecting_ != nullptr) connecting_->Close();
    session = std::move(session_);
    session_ = nullptr;
    thread = std::move(thread_);
    broken = !broken_.empty();
  }
  if (session != nullptr) session->Close();
  if (thread.joinable()) thread.join();
  // A thread of it has ended where it was, and what it held is held for ever.
  if (broken) new std::shared_ptr<Session>(std::move(session));
}

}  // namespace oarlock::capi
