#include "capi/library.h"

#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"

namespace oarlock::capi {
namespace {

constexpr size_t kMaxLines = 1000;

// 0: none yet.
std::atomic<pid_t> owner = 0;

class LogRing : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::optional<LogLine> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lines_.empty()) return std::nullopt;
    LogLine line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (lines_.size() == kMaxLines) lines_.pop_front();
    LogLine& line = lines_.emplace_back();
    line.text = OneLogLine(
        std::string_view(message.payload.data(), message.payload.size()));
    line.level = message.level >= spdlog::level::err    ? 2
                 : message.level == spdlog::level::warn ? 1
                                                        : 0;
  }
  void flush_() override {}

 private:
  std::deque<LogLine> lines_;
};

// Made once and never destroyed: threads may log to the end of the process.
const std::shared_ptr<LogRing>& Ring() {
  static const auto* const ring =
      new std::shared_ptr<LogRing>(std::make_shared<LogRing>());
  return *ring;
}

void ThrowBroken(const char* file, int line, const char* what) {
  const std::string text =
      absl::StrCat("invariant broken: ", what, " (", file, ":", line, ")");
  Log().error("{}", text);
  throw BrokenInvariant(text);
}

}  // namespace

void UseLibrary() {
  static absl::once_flag once;
  absl::call_once(once, [] {
    owner = getpid();
    SetLog(std::make_shared<spdlog::logger>("oarlock", Ring()));
    SetCheckFailureHandler(ThrowBroken);
  });
}

bool InForkedChild() {
  const pid_t used_by = owner.load(std::memory_order_relaxed);
  return used_by != 0 && used_by != getpid();
}

std::optional<LogLine> TakeLogLine() { return Ring()->Take(); }

}  // namespace oarlock::capi
