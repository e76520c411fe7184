#include "data/rows/reader_process.h"

#include <errno.h>
#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

// Descriptors of the process: its socket, then the memories.
constexpr int kSocket = 3;
constexpr int kFirstMemory = 4;
// Descriptors of this process are above those, so that none is in the way.
constexpr int kFirstOwn = 128;

constexpr absl::Duration kPoll = absl::Milliseconds(100);
constexpr size_t kMaxResponseBytes = size_t{64} << 20;
constexpr size_t kReceiveBytes = 65536;
// Of a memory: what a block may have.
constexpr uint64_t kMaxBlockBytes = uint64_t{1} << 36;

absl::StatusOr<FileDescriptor> MoveUp(FileDescriptor from) {
  const int moved = fcntl(from.get(), F_DUPFD_CLOEXEC, kFirstOwn);
  if (moved < 0) return absl::ErrnoToStatus(errno, "cannot copy a descriptor");
  return FileDescriptor(moved);
}

absl::Status NotUnderstood(const std::string& what) {
  return absl::UnavailableError(
      absl::StrCat("the reader process was not understood: ", what));
}

}  // namespace

ReaderProcess::ReaderProcess(const FeatureList& features,
                             const ReaderOptions& options)
    : features_(features), options_(options) {}

ReaderProcess::~ReaderProcess() {
  socket_.Close();
  group_.reset();
  if (pid_ > 0) {
    // It may have left the group.
    kill(pid_, SIGKILL);
    int status;
    WaitForProcess(pid_, &status, 0);
  }
  for (const Memory& memory : memories_) {
    if (memory.data != nullptr) munmap(memory.data, memory.mapped);
  }
}

absl::StatusOr<std::unique_ptr<ReaderProcess>> ReaderProcess::Start(
    const FeatureList& features, const ReaderOptions& options) {
  auto process = absl::WrapUnique(new ReaderProcess(features, options));
  OARLOCK_RETURN_IF_ERROR(process->Spawn());
  v1::ReaderRequest request;
  v1::BeginReading& begin = *request.mutable_begin();
  *begin.mutable_features() = features.message();
  begin.set_block_rows(options.block_rows);
  begin.set_num_memories(options.num_memories);
  begin.set_memory_bytes(options.memory_bytes);
  begin.set_format(options.format);
  begin.set_prepare(options.prepare);
  begin.set_read_timeout_s(absl::ToDoubleSeconds(options.read_timeout));
  OARLOCK_RETURN_IF_ERROR(process->Send(request));
  OARLOCK_ASSIGN_OR_RETURN(const v1::ReaderResponse response,
                           process->Receive());
  if (!response.has_begun()) return NotUnderstood("it has not begun");
  return process;
}

absl::Status ReaderProcess::Spawn() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket");
  }
  FileDescriptor own(ends[0]);
  FileDescriptor other(ends[1]);
  OARLOCK_ASSIGN_OR_RETURN(socket_, MoveUp(std::move(own)));
  OARLOCK_ASSIGN_OR_RETURN(other, MoveUp(std::move(other)));
  OARLOCK_ASSIGN_OR_RETURN(group_, GuardedGroup::Start());
  SpawnActions actions;
  actions.Use(other, kSocket);
  for (uint32_t i = 0; i < options_.num_memories; ++i) {
    FileDescriptor file(memfd_create("oarlock-rows", MFD_CLOEXEC));
    if (!file.valid()) {
      return absl::ErrnoToStatus(errno, "cannot make memory to share");
    }
    Memory& memory = memories_.emplace_back();
    OARLOCK_ASSIGN_OR_RETURN(memory.file, MoveUp(std::move(file)));
    actions.Use(memory.file, kFirstMemory + static_cast<int>(i));
  }
  OARLOCK_ASSIGN_OR_RETURN(
      pid_, SpawnProgram(options_.command, group_->number(), actions,
                         absl::StrCat("'", options_.command[0],
                                      "', which reads columnar files; name "
                                      "another interpreter with --python")));
  return absl::OkStatus();
}

absl::Status ReaderProcess::Send(const v1::ReaderRequest& request) {
  std::string line;
  const auto printed =
      google::protobuf::util::MessageToJsonString(request, &line);
  if (!printed.ok()) return absl::InternalError(printed.ToString());
  line += '\n';
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = send(socket_.get(), line.data() + sent,
                           line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Ended();
    sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status ReaderProcess::Ended() {
  int status = 0;
  group_.reset();
  const pid_t pid = std::exchange(pid_, -1);
  if (pid < 0) return absl::UnavailableError("the reader process has ended");
  // It may have closed its socket only.
  kill(pid, SIGKILL);
  WaitForProcess(pid, &status, 0);
  return absl::UnavailableError(
      WIFSIGNALED(status)
          ? absl::StrCat("the reader process was ended by signal ",
                         WTERMSIG(status))
          : absl::StrCat("the reader process ended with status ",
                         WEXITSTATUS(status)));
}

absl::Status ReaderProcess::AwaitBytes() {
  pollfd socket = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  absl::Duration silent = absl::ZeroDuration();
  for (;;) {
    const int ready = poll(&socket, 1, absl::ToInt64Milliseconds(kPoll));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) {
      return absl::ErrnoToStatus(errno, "cannot wait for the reader process");
    }
    silent += kPoll;
    if (options_.while_silent != nullptr) {
      OARLOCK_RETURN_IF_ERROR(options_.while_silent(silent));
    }
    if (silent < options_.read_timeout) continue;
    Ended().IgnoreError();
    return absl::UnavailableError(absl::StrCat(
        "the reader process was silent for ",
        absl::FormatDuration(options_.read_timeout), ", and was killed"));
  }
}

absl::StatusOr<v1::ReaderResponse> ReaderProcess::Receive() {
  size_t end;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (pid_ < 0) return absl::UnavailableError("the reader process has ended");
    if (received_.size() > kMaxResponseBytes) {
      return NotUnderstood("a line without end");
    }
    OARLOCK_RETURN_IF_ERROR(AwaitBytes());
    const size_t before = received_.size();
    received_.resize(before + kReceiveBytes);
    const ssize_t n =
        recv(socket_.get(), received_.data() + before, kReceiveBytes, 0);
    received_.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0 || (n < 0 && errno != EINTR)) return Ended();
  }
  v1::ReaderResponse response;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(received_.data(), end), &response);
  received_.erase(0, end + 1);
  if (!parsed.ok()) return NotUnderstood(parsed.ToString());
  if (response.has_failure()) {
    return absl::Status(
        static_cast<absl::StatusCode>(response.failure().code()),
        response.failure().message());
  }
  return response;
}

absl::StatusOr<ReaderProcess::Listing> ReaderProcess::List(
    const std::vector<std::string>& patterns) {
  v1::ReaderRequest request;
  request.mutable_list()->mutable_patterns()->Assign(patterns.begin(),
                                                     patterns.end());
  OARLOCK_RETURN_IF_ERROR(Send(request));
  Listing listing;
  for (;;) {
    OARLOCK_ASSIGN_OR_RETURN(v1::ReaderResponse response, Receive());
    if (!response.has_files()) return NotUnderstood("no files");
    for (v1::ListedFile& file : *response.mutable_files()->mutable_files()) {
      listing.files.push_back(std::move(file));
    }
    if (!response.files().last()) continue;
    listing.features = response.files().features();
    return listing;
  }
}

absl::Status ReaderProcess::Read(const v1::ReadRows& rows) {
  v1::ReaderRequest request;
  *request.mutable_read() = rows;
  return Send(request);
}

absl::StatusOr<std::optional<ReaderProcess::Block>> ReaderProcess::Next() {
  OARLOCK_ASSIGN_OR_RETURN(const v1::ReaderResponse response, Receive());
  if (response.has_end()) return std::nullopt;
  if (!response.has_block()) return NotUnderstood("no block");
  const v1::RowBlock& sent = response.block();
  OARLOCK_ASSIGN_OR_RETURN(const absl::Span<const char> bytes,
                           Map(sent.memory(), sent.bytes()));
  OARLOCK_ASSIGN_OR_RETURN(const FeatureBlockView view,
                           FeatureBlockView::Open(bytes, features_.schema()));
  if (view.num_rows() != sent.num_rows()) return NotUnderstood("its rows");
  return Block{view, sent.memory(), sent.begin(), sent.decoded_rows()};
}

absl::StatusOr<absl::Span<const char>> ReaderProcess::Map(uint32_t memory,
                                                          uint64_t bytes) {
  if (memory >= memories_.size() || bytes > kMaxBlockBytes) {
    return NotUnderstood("its memory");
  }
  Memory& mapped = memories_[memory];
  if (bytes > mapped.mapped) {
    if (mapped.data != nullptr) munmap(mapped.data, mapped.mapped);
    mapped.data = nullptr;
    mapped.mapped = 0;
    const off_t size = lseek(mapped.file.get(), 0, SEEK_END);
    if (size < static_cast<off_t>(bytes)) return NotUnderstood("too short");
    void* const data =
        mmap(nullptr, size, PROT_READ, MAP_SHARED, mapped.file.get(), 0);
    if (data == MAP_FAILED) {
      return absl::ErrnoToStatus(errno, "cannot map rows");
    }
    mapped.data = static_cast<char*>(data);
    mapped.mapped = static_cast<size_t>(size);
  }
  return absl::MakeConstSpan(mapped.data, bytes);
}

absl::Status ReaderProcess::Free(const Block& block) {
  v1::ReaderRequest request;
  request.mutable_free()->set_memory(block.memory);
  return Send(request);
}

absl::Status ReaderProcess::Stop() {
  v1::ReaderRequest request;
  request.mutable_stop();
  return Send(request);
}

}  // namespace oarlock::data
