#include "coordinator/inputs/input_files.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oarlock::coordinator {

using google::protobuf::util::MessageDifferencer;

absl::Status InputFiles::Check(const v1::DefineInputRequest& part) const {
  const auto found = inputs_.find(part.name());
  const bool is_new = found == inputs_.end();
  if (IsKnown(part)) return absl::OkStatus();
  if (!is_new && IsWhole(found->second)) {
    return absl::AlreadyExistsError(
        absl::StrCat("the files of input '", part.name(), "' are known"));
  }
  const uint64_t next = is_new ? 0 : found->second.size();
  if (part.part() != 0 && part.part() != next) {
    return absl::FailedPreconditionError(
        absl::StrCat("part ", part.part(), " of input '", part.name(),
                     "' comes, and the next one is ", next));
  }
  if (is_new && inputs_.size() >= kMaxInputs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the job has ", kMaxInputs, " inputs; more are refused"));
  }
  if (bytes_ + part.ByteSizeLong() > kMaxBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the lists of files take more than ", kMaxBytes >> 20,
                     " MiB; name fewer files, or write larger ones"));
  }
  return absl::OkStatus();
}

bool InputFiles::IsKnown(const v1::DefineInputRequest& part) const {
  const auto found = inputs_.find(part.name());
  if (found == inputs_.end() || part.part() >= found->second.size()) {
    return false;
  }
  const v1::DefineInputRequest& known = found->second[part.part()];
  return known.last() == part.last() &&
         known.files_size() == part.files_size() &&
         std::equal(known.files().begin(), known.files().end(),
                    part.files().begin(), MessageDifferencer::Equals);
}

void InputFiles::Define(const v1::DefineInputRequest& part) {
  if (IsKnown(part)) return;
  Parts& parts = inputs_[part.name()];
  if (part.part() == 0) {
    for (const v1::DefineInputRequest& each : parts) {
      bytes_ -= each.ByteSizeLong();
    }
    parts.clear();
  }
  parts.push_back(part);
  bytes_ += part.ByteSizeLong();
}

absl::StatusOr<v1::GetInputResponse> InputFiles::Get(
    const v1::GetInputRequest& request) const {
  const auto found = inputs_.find(request.name());
  if (found == inputs_.end() || !IsWhole(found->second) ||
      request.part() >= found->second.size()) {
    return absl::NotFoundError(absl::StrCat("part ", request.part(),
                                            " of input '", request.name(),
                                            "' is not known"));
  }
  const v1::DefineInputRequest& part = found->second[request.part()];
  v1::GetInputResponse response;
  *response.mutable_files() = part.files();
  response.set_last(part.last());
  return response;
}

void InputFiles::Save(State* state) const {
  for (const auto& [name, parts] : inputs_) {
    for (const v1::DefineInputRequest& part : parts) *state->Add() = part;
  }
}

void InputFiles::Load(const State& state) {
  inputs_.clear();
  bytes_ = 0;
  for (const v1::DefineInputRequest& part : state) Define(part);
}

}  // namespace oarlock::coordinator
