#include "capi/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/finite.h"
#include "base/log.h"
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

// What is larger is not kept for another use: 64 MiB of floats, and keys whose
// tables have about as much.
constexpr size_t kMaxKeptFloats = size_t{16} << 20;
constexpr size_t kMaxKeptKeys = size_t{1} << 20;

// Floats that are looked at while they are in the first cache.
constexpr size_t kCopyBlock = 4096;

// Copies the values; whether all are finite.
bool CopyAndLook(const float* from, size_t size, float* to) {
  bool finite = true;
  for (size_t begin = 0; begin < size; begin += kCopyBlock) {
    const size_t count = std::min(kCopyBlock, size - begin);
    std::copy(from + begin, from + begin + count, to + begin);
    finite = finite && AllFinite(to + begin, count);
  }
  return finite;
}

std::string NameOf(const v1::TableConfig& config) {
  return absl::StrCat("table '", config.name(), "' (", config.id(), ")");
}

absl::Status PushedBefore() {
  return absl::FailedPreconditionError(
      "the step was pushed before; begin another one");
}

absl::Status TwiceInStep(const v1::TableConfig& config) {
  return absl::InvalidArgumentError(
      absl::StrCat(NameOf(config),
                   " takes part in this step already; a step has one push for "
                   "each table: merge the gradients"));
}

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
      absl::StrCat(NameOf(*config), " is dense; name a sparse one"));
}

absl::StatusOr<const v1::TableConfig*> Session::DenseTableOf(
    TableId table) const {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config, TableOf(table));
  if (config->has_dense()) return config;
  return absl::InvalidArgumentError(
      absl::StrCat(NameOf(*config), " is sparse; name a dense one"));
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

absl::Status Session::Pull(const std::vector<PullTarget>& targets,
                           OperationPtr operation) {
  if (targets.empty()) {
    return absl::InvalidArgumentError("a pull of no tables; name at least one");
  }
  for (const PullTarget& target : targets) {
    OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config,
                             SparseTableOf(target.table));
    const size_t wanted = target.keys->keys().size() * config->sparse().dim();
    if (target.num_values != wanted) {
      return absl::InvalidArgumentError(absl::StrCat(
          "values for ", NameOf(*config), " have ", target.num_values,
          " floats; ", target.keys->keys().size(), " distinct keys of ",
          config->sparse().dim(), " floats make ", wanted));
    }
  }
  // What the calls point to, and by which they are flushed and cancelled.
  struct Memory {
    std::vector<PullTarget> targets;
    std::atomic<size_t> remaining = 0;
    absl::Mutex mutex;
    absl::Status status;
  };
  auto memory = std::make_shared<Memory>();
  memory->targets = targets;
  memory->remaining = targets.size();
  operation->SetCancel([way = cancel_way_, owner = memory.get()] {
    absl::MutexLock lock(&way->mutex);
    if (way->session != nullptr) way->session->parameters_->Cancel(owner);
  });
  Memory* const all = memory.get();
  for (const PullTarget& target : all->targets) {
    parameters_->EnqueuePullSparse(
        target.table, *target.keys, target.values, /*versions=*/nullptr, memory,
        [this, all, operation](const absl::Status& status) {
          absl::Status outcome;
          {
            absl::MutexLock lock(&all->mutex);
            all->status.Update(status);
            outcome = all->status;
          }
          if (--all->remaining == 0) End(operation, outcome);
        });
  }
  parameters_->Flush(all);
  return absl::OkStatus();
}

absl::Status Session::PullDense(TableId table, float* values, size_t num_values,
                                OperationPtr operation) {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config, DenseTableOf(table));
  if (num_values != config->dense().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("values for ", NameOf(*config), " have ", num_values,
                     " floats; the table has ", config->dense().size()));
  }
  auto replica = std::make_shared<client::DenseReplica>();
  client::DenseReplica* const to = replica.get();
  parameters_->PullDense(
      table, to, replica,
      [this, to, values, operation](const absl::Status& status) {
        if (status.ok())
          std::copy(to->values.begin(), to->values.end(), values);
        End(operation, status);
      });
  return absl::OkStatus();
}

std::shared_ptr<const client::KeyBatch> Session::MakeKeys(
    absl::Span<const Key> keys) {
  std::shared_ptr<client::KeyBatch> batch =
      key_batches_.Take([](const client::KeyBatch& used) {
        return used.row_of_key().size() <= kMaxKeptKeys;
      });
  batch->Build(keys, parameters_->partition_bits());
  return batch;
}

std::shared_ptr<Floats> Session::TakeBuffer(size_t num_floats) {
  std::shared_ptr<Floats> buffer = buffers_.Take(
      [](const Floats& used) { return used.size() <= kMaxKeptFloats; });
  if (buffer->size() < num_floats) buffer->resize(num_floats);
  return buffer;
}

absl::Status Session::AddSparse(const SparseStep& sparse, Step* step) {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config,
                           SparseTableOf(sparse.table));
  const size_t num_keys = sparse.keys->keys().size();
  const size_t wanted = num_keys * config->sparse().dim();
  if (sparse.num_gradients != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradients for ", NameOf(*config), " have ", sparse.num_gradients,
        " floats; ", num_keys, " distinct keys of ", config->sparse().dim(),
        " floats make ", wanted));
  }
  const size_t num_floats = wanted + (sparse.shows == nullptr ? 0 : num_keys) +
                            (sparse.clicks == nullptr ? 0 : num_keys);
  std::shared_ptr<Floats> buffer = TakeBuffer(num_floats);
  float* next = buffer->data();
  client::SparseGradients gradients;
  gradients.known_finite = true;
  const auto copy = [&](const float* from, size_t size) -> const float* {
    if (from == nullptr) return nullptr;
    float* const to = next;
    if (!CopyAndLook(from, size, to)) gradients.known_finite = false;
    next += size;
    return to;
  };
  gradients.table = sparse.table;
  gradients.keys = sparse.keys.get();
  gradients.gradients = copy(sparse.gradients, wanted);
  gradients.shows = copy(sparse.shows, num_keys);
  gradients.clicks = copy(sparse.clicks, num_keys);
  absl::MutexLock lock(&step->mutex_);
  if (step->memory_ == nullptr) return PushedBefore();
  for (const client::SparseGradients& other : step->push_.sparse) {
    if (other.table == sparse.table) return TwiceInStep(*config);
  }
  step->memory_->keys.push_back(sparse.keys);
  step->memory_->buffers.push_back(std::move(buffer));
  step->push_.sparse.push_back(gradients);
  return absl::OkStatus();
}

absl::Status Session::AddDense(const DenseStep& dense, Step* step) {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config,
                           DenseTableOf(dense.table));
  if (dense.num_gradients != config->dense().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradients for ", NameOf(*config), " have ", dense.num_gradients,
        " floats; the table has ", config->dense().size()));
  }
  std::shared_ptr<Floats> buffer = TakeBuffer(dense.num_gradients);
  client::DenseGradients gradients;
  gradients.known_finite =
      CopyAndLook(dense.gradients, dense.num_gradients, buffer->data());
  gradients.table = dense.table;
  gradients.gradients = buffer->data();
  absl::MutexLock lock(&step->mutex_);
  if (step->memory_ == nullptr) return PushedBefore();
  for (const client::DenseGradients& other : step->push_.dense) {
    if (other.table == dense.table) return TwiceInStep(*config);
  }
  step->memory_->buffers.push_back(std::move(buffer));
  step->push_.dense.push_back(gradients);
  return absl::OkStatus();
}

absl::Status Session::Push(Step* step, OperationPtr operation) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  OARLOCK_RETURN_IF_ERROR(Alive());
  std::shared_ptr<Step::Memory> memory;
  client::PushRequest push;
  {
    absl::MutexLock lock(&step->mutex_);
    if (step->memory_ == nullptr) return PushedBefore();
    memory = std::exchange(step->memory_, nullptr);
    push = std::move(step->push_);
  }
  const uint64_t lease = step->lease();
  Part part;
  if (lease != 0) {
    absl::MutexLock lock(&mutex_);
    std::optional<Part> leased = leases_.Take(lease);
    if (!leased.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("part ", lease,
                       " is not leased to this worker, or was pushed before; "
                       "each part takes one step"));
    }
    part = *std::move(leased);
    push.examples = part.examples;
    push.dense_examples = part.dense_examples;
    push.epoch = part.epoch;
    push.completes = part.completes;
    // Of a dead worker's push one kind may be complete.
    if (part.examples.empty()) push.sparse.clear();
    if (part.dense_examples.empty()) push.dense.clear();
  }
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (lease == 0) OARLOCK_RETURN_IF_ERROR(CheckGoesOnWith(""));
    OARLOCK_RETURN_IF_ERROR(AddRest(&push));
    ++pushes_under_way_;
    number = marks_.Begin(
        part.phase_name,
        part.repairs ? std::vector<data::ExampleRange>() : part.examples,
        push.round);
    if (push.round == 0) push.cut = number;
  }
  parameters_->Push(
      push, /*versions=*/nullptr, memory,
      [this, part, lease, number, operation](const absl::Status& status) {
        OnPushDone(part, lease, number, status);
        End(operation, status);
      });
  // It is sent: whoever cancels it only stops waiting for it.
  operation->SetCancel([operation = operation.get()] {
    operation->Finish(absl::CancelledError(
        "the wait for a push was cancelled; the push goes on"));
  });
  return absl::OkStatus();
}

absl::Status Session::AddRest(client::PushRequest* push) {
  bool sync = false;
  for (const auto& [id, config] : tables_) {
    sync = sync || config->mode() == v1::SYNC;
  }
  if (!sync) return absl::OkStatus();
  if (!in_rounds_) {
    return absl::FailedPreconditionError(
        "the job's tables are of sync mode, and this worker takes no part in "
        "rounds; join them first");
  }
  static const auto* const no_keys = new client::KeyBatch;
  for (const auto& [id, config] : tables_) {
    const TableId table = id;
    const auto is_of = [table](const auto& gradients) {
      return gradients.table == table;
    };
    if (config->has_sparse() &&
        std::none_of(push->sparse.begin(), push->sparse.end(), is_of)) {
      push->sparse.push_back({.table = table, .keys = no_keys});
    } else if (config->has_dense() &&
               std::none_of(push->dense.begin(), push->dense.end(), is_of)) {
      push->dense.push_back({.table = table});
    }
  }
  push->round = ++last_round_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Session::SetRounds(bool joins) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  absl::StatusOr<uint64_t> complete = 0;
  if (joins) {
    complete = job_->JoinRounds();
  } else {
    OARLOCK_RETURN_IF_ERROR(job_->LeaveRounds());
  }
  OARLOCK_RETURN_IF_ERROR(complete.status());
  {
    absl::MutexLock lock(&mutex_);
    in_rounds_ = joins;
    if (joins) {
      last_round_ = *complete;
      marks_.JoinedRounds(*complete);
    } else {
      marks_.LeftRounds();
    }
  }
  MarkIfDue();
  return absl::StrCat("{\"complete\": ", *complete, "}");
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

void Session::OnPushDone(const Part& part, uint64_t lease, uint64_t number,
                         const absl::Status& status) {
  if (status.ok() && lease != 0) {
    uint64_t examples = 0;
    for (const data::ExampleRange& range : part.examples) {
      examples += range.end - range.begin;
    }
    progress_.AddStep(part.work, examples);
  }
  {
    absl::MutexLock lock(&mutex_);
    if (status.ok() && lease != 0) leases_.SetDone(part.phase_name, lease);
    marks_.End(number, status.ok());
    // Who leaves waits for this, and reports what was done by then.
    --pushes_under_way_;
  }
  MarkIfDue();
}

void Session::MarkIfDue() {
  if (job_ == nullptr || !job_->takes_cuts()) return;
  std::optional<StepMarks::Mark> due;
  {
    absl::MutexLock lock(&mutex_);
    due = marks_.TakeDue();
  }
  if (!due.has_value()) return;
  control_->Start<v1::MarkCutResponse>(
      ServerIndex(0), absl::StrCat(kCoordinator, "MarkCut"), ToRequest(*due),
      [this, mark = *due](const absl::StatusOr<v1::MarkCutResponse>& response) {
        if (!response.ok()) {
          Log().warn("cut {} was not marked: {}", mark.cut,
                     std::string(response.status().message()));
        }
        {
          absl::MutexLock lock(&mutex_);
          marks_.EndMark(mark, response.ok());
        }
        MarkIfDue();
      });
}

v1::MarkCutRequest Session::ToRequest(const StepMarks::Mark& mark) const {
  v1::MarkCutRequest request;
  request.set_worker_index(worker_index());
  request.set_worker_generation(worker_generation());
  request.set_cut(mark.cut);
  for (const v1::TrainedExamples& trained : mark.ToProto()) {
    *request.add_trained() = trained;
  }
  return request;
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
