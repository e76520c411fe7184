#include "tests/stress/faults.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace oarlock {

absl::StatusOr<FaultRates> ParseFaultRates(absl::string_view text) {
  FaultRates rates;
  const std::map<std::string, std::vector<double*>, std::less<>> fields = {
      {"drop", {&rates.drop_request, &rates.drop_response}},
      {"drop_request", {&rates.drop_request}},
      {"drop_response", {&rates.drop_response}},
      {"delay", {&rates.delay_request, &rates.delay_response}},
      {"delay_request", {&rates.delay_request}},
      {"delay_response", {&rates.delay_response}},
      {"duplicate", {&rates.duplicate_now, &rates.duplicate_late}},
      {"duplicate_now", {&rates.duplicate_now}},
      {"duplicate_late", {&rates.duplicate_late}},
  };
  for (const absl::string_view entry :
       absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    const auto field = fields.find(parts.first);
    double rate = 0;
    if (field == fields.end() || !absl::SimpleAtod(parts.second, &rate) ||
        !(rate >= 0 && rate <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rate of faults is '", entry,
          "'; legal is NAME=P with P in [0, 1] "
          "and NAME one of ",
          absl::StrJoin(fields, ", ", [](std::string* out, const auto& known) {
            out->append(known.first);
          })));
    }
    for (double* target : field->second) *target = rate;
  }
  return rates;
}

FaultPlan DrawFaultPlan(const FaultRates& rates, RandomSequence* random) {
  // The same number of draws for every call, so that what happens to one does
  // not change the others.
  FaultPlan plan;
  plan.drop_request = random->Uniform() < rates.drop_request;
  plan.drop_response = random->Uniform() < rates.drop_response;
  const bool delay_request = random->Uniform() < rates.delay_request;
  const bool delay_response = random->Uniform() < rates.delay_response;
  plan.twice = random->Uniform() < rates.duplicate_now;
  plan.late = random->Uniform() < rates.duplicate_late;
  plan.second_response = random->Uniform() < .5;
  const double request_share = random->Uniform();
  const double response_share = random->Uniform();
  if (delay_request) plan.request_delay = kMaxFaultDelay * request_share;
  if (delay_response) plan.response_delay = kMaxFaultDelay * response_share;
  plan.lateness = kMaxLateness * random->Uniform();
  return plan;
}

void FaultCounts::Add(const FaultCounts& other) {
  calls += other.calls;
  dropped_requests += other.dropped_requests;
  dropped_responses += other.dropped_responses;
  delayed_requests += other.delayed_requests;
  delayed_responses += other.delayed_responses;
  overtaken_requests += other.overtaken_requests;
  duplicates_now += other.duplicates_now;
  duplicates_late += other.duplicates_late;
  cuts += other.cuts;
  connections_cut += other.connections_cut;
  for (const auto& [method, count] : other.duplicates) {
    duplicates[method] += count;
  }
}

std::string FaultCounts::ToJson(uint64_t seed) const {
  return absl::StrCat(
      "{\"seed\": ", seed, ", \"calls\": ", calls,
      ", \"dropped_requests\": ", dropped_requests,
      ", \"dropped_responses\": ", dropped_responses,
      ", \"delayed_requests\": ", delayed_requests,
      ", \"delayed_responses\": ", delayed_responses,
      ", \"overtaken_requests\": ", overtaken_requests,
      ", \"duplicates_now\": ", duplicates_now,
      ", \"duplicates_late\": ", duplicates_late, ", \"cuts\": ", cuts,
      ", \"connections_cut\": ", connections_cut, ", \"duplicates\": {",
      absl::StrJoin(duplicates, ", ",
                    [](std::string* out, const auto& method) {
                      absl::StrAppend(out, "\"", method.first,
                                      "\": ", method.second);
                    }),
      "}}");
}

}  // namespace oarlock
