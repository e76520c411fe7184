// What is wrong with a machine, and what to do.

#ifndef OARLOCK_CLI_DOCTOR_DOCTOR_FINDINGS_H_
#define OARLOCK_CLI_DOCTOR_DOCTOR_FINDINGS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "cli/doctor/machine_facts.h"

namespace oarlock::cli {

struct Finding {
  enum class Verdict {
    kOk,
    // Jobs run, but slower, smaller or less safe.
    kWarn,
    // Jobs fail.
    kBad,
  };
  Verdict verdict = Verdict::kOk;
  // "open files".
  std::string subject;
  std::string found;
  // What is wrong and what to do; empty where nothing is.
  std::string advice;
};

// One for each subject, always in the same order.
std::vector<Finding> FindingsOf(const MachineFacts& facts);

// A line for each: "warn  open files     1024; ...".
std::string FindingsText(absl::Span<const Finding> findings);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_DOCTOR_DOCTOR_FINDINGS_H_
