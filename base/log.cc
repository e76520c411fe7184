#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/output/patient_output.h"

namespace oarlock {
namespace {

// Of a message. What others send is part of some.
constexpr size_t kMaxMessageBytes = 8192;

// What begins a line that is part of the message before it.
constexpr std::string_view kContinuation = "\n    ";

// The message as OneLogLine makes it.
class OneLineFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    const std::string text = OneLogLine(
        std::string_view(message.payload.data(), message.payload.size()));
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<OneLineFlag>();
  }
};

void AppendHex(unsigned char byte, std::string* text) {
  constexpr char kDigits[] = "0123456789abcdef";
  *text += "\\x";
  *text += kDigits[byte >> 4];
  *text += kDigits[byte & 15];
}

}  // namespace

std::string OneLogLine(std::string_view message) {
  std::string line;
  const std::string_view shown = message.substr(0, kMaxMessageBytes);
  line.reserve(shown.size());
  for (size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    const auto next =
        static_cast<unsigned char>(i + 1 < shown.size() ? shown[i + 1] : 0);
    if (shown.substr(i, kContinuation.size()) == kContinuation) {
      line += kContinuation;
      i += kContinuation.size() - 1;
    } else if (byte == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      AppendHex(byte, &line);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      // UTF-8 of a control character that terminals obey.
      AppendHex(byte, &line);
      AppendHex(next, &line);
      ++i;
    } else {
      line += shown[i];
    }
  }
  if (shown.size() < message.size()) {
    line += "... (" + std::to_string(message.size()) + " bytes)";
  }
  return line;
}

namespace {

class PatientSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ~PatientSink() override {
    const absl::Duration turn = absl::Milliseconds(100);
    for (int i = 0; i < 10 && !waiting_.empty(); ++i) {
      if (AwaitRoom(STDERR_FILENO, turn)) flush_();
    }
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    constexpr size_t kMaxWaiting = 1 << 20;
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (waiting_.size() + line.size() > kMaxWaiting) {
      ++num_left_out_;
      return;
    }
    waiting_.append(line.data(), line.size());
  }
  void flush_() override {
    waiting_.erase(0, WriteWhatFits(STDERR_FILENO, waiting_));
    if (!waiting_.empty() || num_left_out_ == 0) return;
    waiting_ = std::to_string(std::exchange(num_left_out_, 0)) +
               " lines are left out here: nobody read them\n";
    waiting_.erase(0, WriteWhatFits(STDERR_FILENO, waiting_));
  }

 private:
  std::string waiting_;
  uint64_t num_left_out_ = 0;
};

std::shared_ptr<spdlog::logger> WithFormat(
    std::shared_ptr<spdlog::logger> logger, std::string_view role) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<OneLineFlag>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %L " +
                                                    std::string(role) + "  %*");
  logger->set_formatter(std::move(formatter));
  logger->flush_on(spdlog::level::trace);
  return logger;
}

std::shared_ptr<spdlog::logger> StandardErrorLogger(std::string_view role) {
  return WithFormat(
      std::make_shared<spdlog::logger>(
          "oarlock", std::make_shared<spdlog::sinks::stderr_sink_mt>()),
      role);
}

// What Log() returns and all that it has returned.
class Logger {
 public:
  Logger() { Set(StandardErrorLogger("-")); }

  spdlog::logger& get() const {
    return *logger_.load(std::memory_order_acquire);
  }
  std::shared_ptr<spdlog::logger> Set(std::shared_ptr<spdlog::logger> logger) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<spdlog::logger> before =
        all_.empty() ? nullptr : all_.back();
    all_.push_back(std::move(logger));
    logger_.store(all_.back().get(), std::memory_order_release);
    return before;
  }

 private:
  std::atomic<spdlog::logger*> logger_ = nullptr;
  std::mutex mutex_;
  std::vector<std::shared_ptr<spdlog::logger>> all_;
};

// Destructors of other objects may log to the end of the process.
Logger& TheLogger() {
  static Logger* const logger = new Logger;
  return *logger;
}

}  // namespace

spdlog::logger& Log() { return TheLogger().get(); }

std::shared_ptr<spdlog::logger> SetLog(std::shared_ptr<spdlog::logger> logger) {
  return TheLogger().Set(std::move(logger));
}

void InitLogging(std::string_view role) { SetLog(StandardErrorLogger(role)); }

void InitPatientLogging(std::string_view role) {
  SetLog(WithFormat(std::make_shared<spdlog::logger>(
                        "oarlock", std::make_shared<PatientSink>()),
                    role));
}

}  // namespace oarlock
