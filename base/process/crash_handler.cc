#include "base/process/crash_handler.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/debugging/symbolize.h"

namespace oarlock {
namespace {

#if defined(__has_feature)
#define OARLOCK_HAS_FEATURE(name) __has_feature(name)
#else
#define OARLOCK_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    OARLOCK_HAS_FEATURE(address_sanitizer) ||                        \
    OARLOCK_HAS_FEATURE(thread_sanitizer)
constexpr bool kSanitizerTells = true;
#else
constexpr bool kSanitizerTells = false;
#endif

struct CrashSignal {
  int number;
  std::string_view name;
};
constexpr CrashSignal kCrashSignals[] = {{SIGSEGV, "SIGSEGV"},
                                         {SIGABRT, "SIGABRT"},
                                         {SIGBUS, "SIGBUS"},
                                         {SIGFPE, "SIGFPE"},
                                         {SIGILL, "SIGILL"}};
constexpr int kMaxFrames = 64;
// For a stack that cannot be walked: then the process ends without it.
constexpr unsigned kTellingSeconds = 10;
constexpr size_t kAlternateStackBytes = size_t{128} << 10;

alignas(16) char alternate_stack[kAlternateStackBytes];
// The thread that tells, and what it died of; 0: none.
std::atomic<pid_t> telling_thread = 0;
std::atomic<int> crash_signal = 0;

// A line that is put together without memory from malloc, which may be what
// crashed.
class Line {
 public:
  Line& Text(std::string_view text) {
    const size_t n = std::min(text.size(), sizeof(text_) - 1 - size_);
    std::memcpy(text_ + size_, text.data(), n);
    size_ += n;
    return *this;
  }
  Line& Number(uint64_t value, unsigned base) {
    char digits[20];
    size_t n = 0;
    do {
      digits[n++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value > 0);
    while (n > 0) Text({&digits[--n], 1});
    return *this;
  }
  Line& Hex(uint64_t value) { return Text("0x").Number(value, 16); }
  void Write() {
    text_[size_++] = '\n';
    for (size_t done = 0; done < size_;) {
      const ssize_t n = write(STDERR_FILENO, text_ + done, size_ - done);
      if (n < 0 && errno != EINTR) return;
      if (n > 0) done += static_cast<size_t>(n);
    }
  }

 private:
  char text_[1024];
  size_t size_ = 0;
};

[[noreturn]] void DieBy(int signal) {
  ::signal(signal, SIG_DFL);
  raise(signal);
  // Blocked in this thread; the handler's flags leave it free elsewhere.
  kill(getpid(), signal);
  for (;;) pause();
}

void OnTellingTakesLong(int) { DieBy(crash_signal); }

uintptr_t InterruptedAt(const void* context) {
#if defined(__x86_64__)
  return static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
#else
  return 0;
#endif
}

void WriteFrame(int index, void* address, bool is_return_address) {
  // A call may be the last thing in its function.
  char* const inside =
      static_cast<char*>(address) - (is_return_address ? 1 : 0);
  Line line;
  line.Text("  #").Number(index, 10).Text("  ");
  char symbol[512];
  if (absl::Symbolize(inside, symbol, sizeof(symbol))) {
    line.Text(symbol).Text("  ");
  }
  Dl_info module = {};
  if (dladdr(inside, &module) != 0 && module.dli_fname != nullptr) {
    const std::string_view path = module.dli_fname;
    line.Text(path.substr(path.rfind('/') + 1))
        .Text("+")
        .Hex(inside - static_cast<char*>(module.dli_fbase));
  } else {
    line.Hex(reinterpret_cast<uintptr_t>(inside));
  }
  line.Write();
}

void WriteStack(uintptr_t interrupted_at) {
  void* frames[kMaxFrames];
  const int num_frames = backtrace(frames, kMaxFrames);
  // The handler's own frames are left out where they can be told.
  int first = 0;
  while (first < num_frames &&
         reinterpret_cast<uintptr_t>(frames[first]) != interrupted_at) {
    ++first;
  }
  if (first == num_frames) first = 0;
  for (int i = first; i < num_frames; ++i) {
    WriteFrame(i - first, frames[i], /*is_return_address=*/i != first);
  }
}

void OnCrash(int signal, siginfo_t* info, void* context) {
  pid_t nobody = 0;
  if (!telling_thread.compare_exchange_strong(nobody, gettid())) {
    // Telling crashed itself, or another thread tells and ends the process.
    if (nobody == gettid()) DieBy(signal);
    for (;;) pause();
  }
  crash_signal = signal;
  ::signal(SIGALRM, OnTellingTakesLong);
  alarm(kTellingSeconds);
  Line line;
  line.Text("crashed by ");
  for (const CrashSignal& known : kCrashSignals) {
    if (known.number == signal) line.Text(known.name);
  }
  if (info->si_code <= 0) {
    line.Text(" that process ").Number(info->si_pid, 10).Text(" sent");
  } else {
    line.Text(" at address ").Hex(reinterpret_cast<uintptr_t>(info->si_addr));
  }
  line.Text(", in thread ").Number(gettid(), 10).Text("; its stack:").Write();
  WriteStack(InterruptedAt(context));
  DieBy(signal);
}

}  // namespace

void InstallCrashHandler() {
  if (kSanitizerTells) return;
  static const bool installed = [] {
    absl::InitializeSymbolizer("/proc/self/exe");
    // Loads what walks stacks, for which it is too late in a crash.
    void* frame;
    backtrace(&frame, 1);
    stack_t stack = {};
    stack.ss_sp = alternate_stack;
    stack.ss_size = sizeof(alternate_stack);
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = OnCrash;
    // NODEFER: a crash while telling ends the process.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (const CrashSignal& crash : kCrashSignals) {
      sigaction(crash.number, &action, nullptr);
    }
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace oarlock
