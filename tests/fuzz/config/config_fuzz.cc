// Fuzz target of the text that configures a job, for libFuzzer and for
// config_replay_test.
//
// Input: one byte chooses; 0 mod 2: the rest is a text protobuf (--config
// FILE), else the words of a command line, one a line. Aborts when what was
// accepted is illegal or does not survive being written and read again, when
// an error is not one line, or when a refused file changed the configuration.

#include <google/protobuf/text_format.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "flags/command_line.h"
#include "flags/config_file.h"
#include "flags/message_flags.h"
#include "proto/config/job_config.pb.h"

namespace oarlock {
namespace {

// As a program that has defaults of its own.
v1::JobConfig Before() {
  v1::JobConfig config;
  config.set_epochs(3);
  config.add_train_files("data");
  return config;
}

// What is wrong with an error, or null.
const char* WhatIsWrong(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return "wrong code";
  if (status.message().empty()) return "an error without a message";
  for (const char c : status.message()) {
    if (c == '\n' || c == '\r' || c == '\0') return "not one line of text";
  }
  return nullptr;
}

const char* WhatIsWrong(const v1::JobConfig& accepted) {
  if (!flags::ValidateMessage(accepted).ok()) return "accepted what is illegal";
  std::string text;
  google::protobuf::TextFormat::PrintToString(accepted, &text);
  v1::JobConfig again;
  if (!flags::ParseTextproto("again", text, &again).ok())
    return "cannot read it back";
  if (again.SerializeAsString() != accepted.SerializeAsString()) {
    return "reads back as something else";
  }
  return nullptr;
}

const char* TryText(const std::string& text) {
  v1::JobConfig config = Before();
  const absl::Status status =
      flags::ParseTextproto("job.textproto", text, &config);
  if (status.ok()) return WhatIsWrong(config);
  if (config.SerializeAsString() != Before().SerializeAsString()) {
    return "a refused text changed the configuration";
  }
  return WhatIsWrong(status);
}

const char* TryWords(const std::string& lines) {
  const flags::CommandSyntax syntax = {.name = "fuzz",
                                       .description = "Reads flags."};
  const std::vector<std::string> words = absl::StrSplit(lines, '\n');
  v1::JobConfig config = Before();
  const auto parsed = flags::ParseCommandLine(syntax, words, {{&config}});
  if (!parsed.ok()) return WhatIsWrong(parsed.status());
  if (parsed->help.has_value()) return nullptr;
  return WhatIsWrong(config);
}

}  // namespace
}  // namespace oarlock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char* wrong =
      data[0] % 2 == 0 ? oarlock::TryText(text) : oarlock::TryWords(text);
  if (wrong != nullptr) {
    std::fprintf(stderr, "%s\n", wrong);
    std::abort();
  }
  return 0;
}
