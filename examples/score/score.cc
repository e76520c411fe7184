// Scores lines with an exported model. Needs JSON, zlib and XXH64, not Oarlock:
//
//   score MODEL_DIR FILE... > scores.txt
//
// One score a line, in the order of the input; "nan" of a malformed line. With
// --no-labels the lines have no label. Files are text; of a compressed one:
//
//   zcat FILE | score MODEL_DIR /dev/stdin > scores.txt
//
// docs/export_format.md describes the folder.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/score/model.h"

namespace {

using oarlock::score::Example;
using oarlock::score::Model;

constexpr size_t kBatchLines = 256;
// In UTF-8; skipped in front of a file's first line.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The program that unpacks files that begin like this one, whose first line it
// is; null where it is text.
const char* UnpackerOf(std::string_view line) {
  if (line.starts_with("\x1f\x8b")) return "zcat";
  if (line.starts_with("\xfd"
                       "7zXZ")) {
    return "xzcat";
  }
  if (line.starts_with("\x28\xb5\x2f\xfd")) return "zstdcat";
  return nullptr;
}

// What has been read and not been scored yet.
struct Batch {
  std::vector<Example> examples;
  // Of each line.
  std::vector<bool> is_example;
};

void PrintScores(const Model& model, Batch* batch) {
  const std::vector<float> scores = model.Score(batch->examples);
  size_t next = 0;
  for (const bool is_example : batch->is_example) {
    const float score =
        is_example ? scores[next++] : std::numeric_limits<float>::quiet_NaN();
    std::printf("%.9g\n", static_cast<double>(score));
  }
  *batch = {};
}

bool ScoreFile(const Model& model, const std::string& path, bool has_label) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "score: cannot open %s\n", path.c_str());
    return false;
  }
  Batch batch;
  std::string line;
  std::string reason;
  for (uint64_t number = 1; std::getline(file, line); ++number) {
    std::string_view text = line;
    const char* const unpacker = number == 1 ? UnpackerOf(text) : nullptr;
    if (unpacker != nullptr) {
      std::fprintf(stderr,
                   "score: %s is compressed; unpack it, for example: %s %s | "
                   "score MODEL_DIR /dev/stdin\n",
                   path.c_str(), unpacker, path.c_str());
      return false;
    }
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (number == 1 && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
    }
    Example example;
    const bool ok = oarlock::score::ParseLine(model.input(), text, has_label,
                                              &example, &reason);
    if (ok) {
      batch.examples.push_back(std::move(example));
    } else {
      std::fprintf(stderr, "score: %s:%llu: %s\n", path.c_str(),
                   static_cast<unsigned long long>(number), reason.c_str());
    }
    batch.is_example.push_back(ok);
    if (batch.is_example.size() == kBatchLines) PrintScores(model, &batch);
  }
  PrintScores(model, &batch);
  if (file.bad()) {
    std::fprintf(stderr, "score: cannot read %s to its end\n", path.c_str());
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  bool has_label = true;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--no-labels") == 0) {
      has_label = false;
    } else {
      words.emplace_back(argv[i]);
    }
  }
  if (words.size() < 2) {
    std::fprintf(stderr, "usage: score [--no-labels] MODEL_DIR FILE...\n");
    return 2;
  }
  std::string error;
  const std::unique_ptr<Model> model = Model::Load(words[0], &error);
  if (model == nullptr) {
    std::fprintf(stderr, "score: %s\n", error.c_str());
    return 1;
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (!ScoreFile(*model, words[i], has_label)) return 1;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    std::fprintf(stderr, "score: cannot write all scores\n");
    return 1;
  }
  return 0;
}
