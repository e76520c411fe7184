// What every program of the bench is: measurements that are made one
// repetition at a time, so that whoever runs several programs can take turns
// between them while the machine is in one and the same mood.
//
//   PROGRAM --list                        names of the measurements
//   PROGRAM [--repetitions 7] [NAME...]   each named measurement (all, when
//                                         none is), so many times
//   PROGRAM --serve                       one repetition for each name that
//                                         comes in as a line
//
// A repetition is answered by one line of JSON:
//
//   {"name": "pull uniform", "figures": {"rows_per_second": 4.5e+07}}
//
// With --serve a first line {"ready": true} says that the program is set up.
// Uses the standard library only: the limits may not share code with the
// product.

#ifndef OARLOCK_BENCH_COMMON_REPETITIONS_H_
#define OARLOCK_BENCH_COMMON_REPETITIONS_H_

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace oarlock_bench {

// Names carry their unit.
using Figures = std::vector<std::pair<std::string, double>>;

class Repetitions {
 public:
  // One call is one repetition. What it needs it makes in the first one,
  // outside the time that it takes.
  using Measure = std::function<Figures()>;

  void Add(std::string name, Measure measure) {
    measures_.emplace_back(std::move(name), std::move(measure));
  }

  // Does what the command line says; returns main's result.
  int Run(int argc, char** argv) const;

 private:
  bool RunOnce(const std::string& name) const;
  int Serve() const;

  std::vector<std::pair<std::string, Measure>> measures_;
};

// The value of `--name VALUE` on the command line, or `otherwise`. Run skips
// such pairs.
std::string FlagValue(int argc, char** argv, const std::string& name,
                      const std::string& otherwise);

// Seconds of a clock that never goes back.
inline double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// CPU seconds of this thread, and of all threads of this process.
double ThreadCpu();
double ProcessCpu();

// REQUIRES: not empty.
double Median(std::vector<double> values);

// Runs work(0) ... work(num_threads - 1) at once, each in a thread of its
// own; returns the seconds until the last one is through.
double RunThreads(int num_threads, const std::function<void(int)>& work);

}  // namespace oarlock_bench

#endif  // OARLOCK_BENCH_COMMON_REPETITIONS_H_
