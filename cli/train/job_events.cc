#include "cli/train/job_events.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "worker/report/summary.h"

namespace oarlock::cli {
namespace {

// One write, so that no other thread's output comes between.
void Tell(std::string line) {
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true,
                                   nlohmann::json::error_handler_t::replace);
}

}  // namespace

JobEvents::JobEvents(Job job, int epochs, const Clocks& clocks)
    : job_(std::move(job)),
      clocks_(clocks),
      begin_unix_seconds_(
          absl::ToDoubleSeconds(clocks.wall->Now() - absl::UnixEpoch())),
      line_(epochs),
      stop_event_(eventfd(0, EFD_CLOEXEC)) {
  thread_ = std::thread([this] { Run(); });
}

JobEvents::~JobEvents() {
  const uint64_t one = 1;
  while (write(stop_event_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  close(stop_event_);
}

void JobEvents::TellCheckpointDir(const std::string& folder) {
  Tell(absl::StrCat("{\"checkpoint_dir\": ", Quoted(folder), "}"));
}

void JobEvents::Run() {
  const auto period = static_cast<int>(absl::ToInt64Milliseconds(kPeriod));
  pollfd wait[] = {{.fd = stop_event_, .events = POLLIN, .revents = 0},
                   {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}};
  while (true) {
    const int ready = poll(wait, 2, period);
    if (ready > 0 && wait[0].revents != 0) return;
    // A descriptor of -1 is not looked at.
    if (ready > 0 && wait[1].revents != 0 && !ReadInput()) wait[1].fd = -1;
    Look();
  }
}

void JobEvents::Look() {
  const absl::StatusOr<v1::JobStatusResponse> status = job_.status();
  // Between two runs of servers that stay it tells of the one before.
  if (!status.ok() || status->run_is_over()) return;
  for (const v1::Evaluation& evaluation : status->evaluations()) {
    if (evaluation.unix_seconds() < begin_unix_seconds_) continue;
    if (told_.emplace(evaluation.work(), evaluation.unix_seconds()).second) {
      Tell(absl::StrCat("{\"evaluation\": ", worker::EvaluationJson(evaluation),
                        "}"));
    }
  }
  std::string line = line_.Update(*status, clocks_.monotonic->Now());
  if (line.empty() || line == last_line_) return;
  last_line_ = std::move(line);
  Tell(absl::StrCat("{\"progress\": ", Quoted(last_line_), "}"));
}

bool JobEvents::ReadInput() {
  char buffer[kMaxLineBytes];
  const ssize_t size = read(STDIN_FILENO, buffer, sizeof(buffer));
  if (size < 0 && errno == EINTR) return true;
  if (size <= 0) return false;
  input_.append(buffer, static_cast<size_t>(size));
  for (size_t end; (end = input_.find('\n')) != std::string::npos;) {
    const std::string line = input_.substr(0, end);
    input_.erase(0, end + 1);
    Obey(line);
  }
  if (input_.size() <= kMaxLineBytes) return true;
  Tell("{\"answer\": \"\", \"error\": \"a line is too long\"}");
  return false;
}

void JobEvents::Obey(absl::string_view line) {
  const size_t space = line.find(' ');
  const std::string word(line.substr(0, space));
  const std::string reason(
      space == absl::string_view::npos
          ? absl::string_view()
          : absl::StripAsciiWhitespace(line.substr(space)));
  absl::Status done;
  if (word == "stop") {
    done = job_.stop(reason);
  } else if (word == "drain") {
    // What was evaluated until now; the servers end soon.
    Look();
    done = job_.drain(reason);
  } else {
    done = absl::InvalidArgumentError(absl::StrCat(
        "'", word, "' is no command; legal are stop REASON and drain REASON"));
  }
  Tell(absl::StrCat("{\"answer\": ", Quoted(word),
                    ", \"error\": ", Quoted(std::string(done.message())), "}"));
}

}  // namespace oarlock::cli
