#include "bench/common/repetitions.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace oarlock_bench {
namespace {

double ClockSeconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

double ThreadCpu() { return ClockSeconds(CLOCK_THREAD_CPUTIME_ID); }
double ProcessCpu() { return ClockSeconds(CLOCK_PROCESS_CPUTIME_ID); }

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double RunThreads(int num_threads, const std::function<void(int)>& work) {
  std::atomic<int> waiting{num_threads};
  std::vector<double> begin(num_threads), end(num_threads);
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads; ++t) {
    threads.emplace_back([&, t] {
      // Starting a thread takes as long as a short repetition.
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      begin[t] = Now();
      work(t);
      end[t] = Now();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(end.begin(), end.end()) -
         *std::min_element(begin.begin(), begin.end());
}

std::string FlagValue(int argc, char** argv, const std::string& name,
                      const std::string& otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == "--" + name) return argv[i + 1];
  }
  return otherwise;
}

bool Repetitions::RunOnce(const std::string& name) const {
  for (const auto& [known, measure] : measures_) {
    if (known != name) continue;
    std::string line = "{\"name\": \"" + name + "\", \"figures\": {";
    const char* separator = "";
    for (const auto& [figure, value] : measure()) {
      char number[64];
      std::snprintf(number, sizeof(number), "%.12g", value);
      line += std::string(separator) + "\"" + figure + "\": " + number;
      separator = ", ";
    }
    std::cout << line << "}}" << std::endl;
    return true;
  }
  std::cerr << "no measurement is called \"" << name
            << "\"; --list shows those that there are" << std::endl;
  return false;
}

int Repetitions::Serve() const {
  std::cout << "{\"ready\": true}" << std::endl;
  std::string name;
  while (std::getline(std::cin, name)) {
    if (!RunOnce(name)) return 1;
  }
  return 0;
}

int Repetitions::Run(int argc, char** argv) const {
  int repetitions = 7;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--serve") return Serve();
    if (argument == "--list") {
      for (const auto& [name, measure] : measures_) std::cout << name << "\n";
      return 0;
    }
    if (argument.rfind("--", 0) == 0 && i + 1 < argc) {
      if (argument == "--repetitions") repetitions = std::atoi(argv[i + 1]);
      ++i;
    } else {
      names.push_back(argument);
    }
  }
  if (names.empty()) {
    for (const auto& [name, measure] : measures_) names.push_back(name);
  }
  for (const std::string& name : names) {
    for (int i = 0; i < repetitions; ++i) {
      if (!RunOnce(name)) return 1;
    }
  }
  return 0;
}

}  // namespace oarlock_bench
