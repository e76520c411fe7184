#include "capi/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "capi/json.h"
#include "cluster/wire_version.h"
#include "proto/v1/coordinator_training.pb.h"
#include "proto/v1/coordinator_workers.pb.h"
#include "proto/v1/server_admin_tables.pb.h"

namespace oarlock::capi {
namespace {

constexpr char kCoordinator[] = "/oarlock.v1.CoordinatorService/";
constexpr char kServerAdmin[] = "/oarlock.v1.ServerAdminService/";

// How long the coordinator holds a barrier call open before "not yet".
constexpr uint32_t kBarrierWaitMs = 2000;

}  // namespace

Session::Session(std::unique_ptr<client::ServerConnections> servers,
                 std::unique_ptr<client::GrpcJobClient> job,
                 const client::ValueFormats& formats)
    : servers_(std::move(servers)),
      job_(std::move(job)),
      marks_(job_ == nullptr ? 0 : job_->first_cut()),
      completions_(servers_.get()),
      control_(std::make_unique<client::ControlCalls>(servers_.get(),
                                                      &completions_)),
      parameters_(std::make_unique<client::GrpcParameterClient>(
          servers_.get(), WorkerIndex(worker_index()),
          Generation(worker_generation()), formats, &completions_)) {
  {
    absl::MutexLock lock(&cancel_way_->mutex);
    cancel_way_->session = this;
  }
  if (job_ != nullptr) {
    parameters_->SetRun(job_->registration().run());
    for (const v1::UnfinishedPhase& work : job_->registration().unfinished()) {
      unfinished_.insert(work.phase_name());
      leases_.GoOnWith(work.phase_name());
    }
    job_->SetProgressSource([this] { return progress_.Take(); });
  }
  if (job_ == nullptr || !job_->takes_cuts()) return;
  const auto observe = [this](uint64_t cut, uint64_t round) {
    {
      absl::MutexLock lock(&mutex_);
      marks_.Observe(cut, round);
    }
    MarkIfDue();
  };
  parameters_->SetCutObserver(
      [observe](uint64_t cut) { observe(cut, /*round=*/0); });
  job_->SetCutObserver(observe);
}

Session::~Session() {
  {
    absl::MutexLock lock(&cancel_way_->mutex);
    cancel_way_->session = nullptr;
  }
  servers_->Close();
  if (job_ != nullptr) job_->SetCutObserver(nullptr);
  parameters_->SetCutObserver(nullptr);
  {
    // Responses of the control plane still come.
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
}

uint32_t Session::worker_index() const {
  return job_ == nullptr ? 0 : job_->worker_index().value();
}

uint64_t Session::worker_generation() const {
  return job_ == nullptr ? 0 : job_->generation().value();
}

absl::Status Session::Alive() const {
  return job_ == nullptr ? absl::OkStatus() : job_->Alive();
}

absl::Status Session::CheckWorker() const {
  if (job_ == nullptr) {
    return absl::FailedPreconditionError(
        "a reader changes nothing; join the job as a worker");
  }
  absl::MutexLock lock(&mutex_);
  if (leaving_) {
    return absl::FailedPreconditionError("this worker has left the job");
  }
  return absl::OkStatus();
}

std::string Session::DescribeTable(const v1::TableConfig& config) {
  return absl::StrCat("table '", config.name(), "' (", config.id(), ")");
}

absl::StatusOr<const v1::TableConfig*> Session::TableOf(TableId table) const {
  absl::MutexLock lock(&mutex_);
  const auto found = tables_.find(table);
  if (found == tables_.end()) {
    return absl::NotFoundError(
        absl::StrCat("table ", table.value(),
                     " was not created or opened by this client; do so first"));
  }
  return found->second.get();
}

absl::StatusOr<const v1::TableConfig*> Session::SparseTableOf(
    TableId table) const {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config, TableOf(table));
  if (config->has_sparse()) return config;
  return absl::InvalidArgumentError(
      absl::StrCat(DescribeTable(*config), " is dense; name a sparse one"));
}

absl::StatusOr<const v1::TableConfig*> Session::DenseTableOf(
    TableId table) const {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config, TableOf(table));
  if (config->has_dense()) return config;
  return absl::InvalidArgumentError(
      absl::StrCat(DescribeTable(*config), " is sparse; name a dense one"));
}

void Session::CancelBy(const OperationPtr& operation, uint64_t number) {
  // It may be cancelled when the session is gone.
  operation->SetCancel([way = cancel_way_, number] {
    absl::MutexLock lock(&way->mutex);
    if (way->session != nullptr) way->session->control_->Cancel(number);
  });
}

void Session::UseTable(const v1::TableConfig& config) {
  absl::MutexLock lock(&mutex_);
  if (closing_) return;
  parameters_->UseTable(config);
  tables_.try_emplace(TableId(config.id()),
                      std::make_unique<const v1::TableConfig>(config));
}

absl::Status Session::CreateTable(v1::TableConfig config,
                                  OperationPtr operation) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  v1::CreateTableRequest request;
  *request.mutable_config() = config;
  request.set_run(job_->registration().run());
  // One server after the other: the first one that refuses says why.
  struct Creation {
    v1::CreateTableRequest request;
    uint32_t next = 0;
    std::function<void()> run;
  };
  auto creation = std::make_shared<Creation>();
  creation->request = std::move(request);
  std::weak_ptr<Creation> weak = creation;
  creation->run = [this, weak, operation] {
    const std::shared_ptr<Creation> creation = weak.lock();
    if (creation->next == num_servers()) {
      UseTable(creation->request.config());
      operation->Finish({}, ToJson(creation->request.config()));
      return;
    }
    const uint64_t number = control_->Start<v1::CreateTableResponse>(
        ServerIndex(creation->next++),
        absl::StrCat(kServerAdmin, "CreateTable"), creation->request,
        [creation,
         operation](const absl::StatusOr<v1::CreateTableResponse>& response) {
          if (!response.ok()) return operation->Finish(response.status());
          creation->run();
        });
    CancelBy(operation, number);
  };
  creation->run();
  return absl::OkStatus();
}

absl::Status Session::OpenTable(const std::string& name,
                                OperationPtr operation) {
  const uint64_t number = control_->Start<v1::ServerStatusResponse>(
      ServerIndex(0), absl::StrCat(kServerAdmin, "GetServerStatus"),
      v1::ServerStatusRequest(),
      [this, name,
       operation](const absl::StatusOr<v1::ServerStatusResponse>& response) {
        if (!response.ok()) return operation->Finish(response.status());
        std::string names;
        for (const v1::TableStatus& table : response->tables()) {
          if (table.config().name() == name) {
            UseTable(table.config());
            return operation->Finish({}, ToJson(table.config()));
          }
          absl::StrAppend(&names, names.empty() ? "" : ", ",
                          table.config().name());
        }
        operation->Finish(absl::NotFoundError(
            absl::StrCat("the job has no table '", name, "'; it has ",
                         names.empty() ? "none" : names)));
      });
  CancelBy(operation, number);
  return absl::OkStatus();
}

void Session::End(const OperationPtr& operation, const absl::Status& status) {
  if (job_ == nullptr ||
      !(absl::IsDataLoss(status) || absl::IsAborted(status))) {
    return operation->Finish(status);
  }
  {
    absl::MutexLock lock(&mutex_);
    if (closing_) return operation->Finish(status);
  }
  v1::HeartbeatRequest request;
  request.set_worker_index(worker_index());
  request.set_worker_generation(worker_generation());
  control_->Start<v1::HeartbeatResponse>(
      ServerIndex(0), absl::StrCat(kCoordinator, "Heartbeat"), request,
      [operation,
       status](const absl::StatusOr<v1::HeartbeatResponse>& response) {
        operation->Finish(absl::IsAborted(response.status()) ? response.status()
                                                             : status);
      });
}

absl::Status Session::Barrier(const std::string& name, OperationPtr operation) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  OARLOCK_RETURN_IF_ERROR(Alive());
  v1::BarrierRequest request;
  request.set_name(name);
  request.set_worker_index(worker_index());
  request.set_worker_generation(worker_generation());
  request.set_wait_ms(kBarrierWaitMs);
  const uint64_t number = control_->Start<v1::BarrierResponse>(
      ServerIndex(0), absl::StrCat(kCoordinator, "Barrier"), request,
      [operation](const absl::StatusOr<v1::BarrierResponse>& response) {
        operation->Finish(response.status());
      });
  CancelBy(operation, number);
  return absl::OkStatus();
}

absl::Status Session::Call(
    ServerIndex server, const std::string& path, std::string request,
    absl::Duration attempt_timeout,
    std::function<absl::StatusOr<std::string>(const std::string&)> to_json,
    OperationPtr operation) {
  client::ControlCalls::Call call;
  call.server = server;
  call.path = path;
  call.request = std::move(request);
  call.attempt_timeout = attempt_timeout;
  call.done = [operation, to_json = std::move(to_json)](
                  const absl::StatusOr<std::string>& bytes) {
    if (!bytes.ok()) return operation->Finish(bytes.status());
    const absl::StatusOr<std::string> json = to_json(*bytes);
    if (!json.ok()) return operation->Finish(json.status());
    operation->Finish({}, *json);
  };
  const uint64_t number = control_->Start(std::move(call));
  CancelBy(operation, number);
  return absl::OkStatus();
}

}  // namespace oarlock::capi
