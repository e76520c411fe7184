#include "fleet/serving/inference.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/auc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "data/parse/bad_lines.h"
#include "data/parse/line_parser.h"
#include "data/reader/input_file.h"
#include "data/reader/line_reader.h"
#include "worker/dense/dense_parameters.h"
#include "worker/step/step_buffer.h"

namespace oarlock {
namespace {

constexpr float kNoScore = std::numeric_limits<float>::quiet_NaN();

// The lines that make a batch, malformed ones and comments included.
struct Chunk {
  // From 0, in the order of the input.
  uint64_t number = 0;
  // Of each line, whether it is an example of the batch.
  std::vector<bool> is_example;
  uint64_t num_comments = 0;
};

// Reads files one after the other. One thread at a time.
class ChunkReader {
 public:
  explicit ChunkReader(const InferenceOptions& options)
      : options_(options), parser_(data::NewLineParser(options.data)) {}

  // The next lines, with up to batch_size examples; false at the end.
  absl::StatusOr<bool> Next(Chunk* chunk, data::Batch* batch) {
    batch->Clear();
    chunk->is_example.clear();
    chunk->num_comments = 0;
    chunk->number = next_number_;
    while (batch->num_examples < options_.batch_size) {
      if (lines_ == nullptr) {
        if (next_file_ == options_.files.size()) break;
        OARLOCK_RETURN_IF_ERROR(Open(options_.files[next_file_++]));
      }
      std::string_view line;
      const uint64_t number = lines_->line_number();
      if (!lines_->Next(&line)) {
        OARLOCK_RETURN_IF_ERROR(lines_->status());
        lines_.reset();
        continue;
      }
      // With a label in front it would look like an example.
      if (parser_->IsComment(line)) {
        chunk->is_example.push_back(false);
        ++chunk->num_comments;
        continue;
      }
      const bool is_example = parser_->Append(
          options_.has_labels ? line : WithLabel(line), batch, &reason_);
      chunk->is_example.push_back(is_example);
      if (is_example) continue;
      ExplainLabel(line);
      OARLOCK_RETURN_IF_ERROR(bad_lines_.Add(lines_->name(), number, reason_,
                                             options_.data.bad_lines_max));
    }
    if (chunk->is_example.empty()) return false;
    ++next_number_;
    return true;
  }

 private:
  absl::Status Open(const std::string& file) {
    OARLOCK_ASSIGN_OR_RETURN(lines_, data::OpenInput(options_.data, file));
    return absl::OkStatus();
  }

  // What `reason_`, why `line` is malformed, does not know: that there are
  // lines with labels and without.
  void ExplainLabel(std::string_view line) {
    // A blank line with a label is an example of libsvm's.
    if (line.find_first_not_of(" \t") == line.npos) return;
    data::Batch ignored;
    std::string no_reason;
    const bool is_other_kind = parser_->Append(
        options_.has_labels ? WithLabel(line) : line, &ignored, &no_reason);
    if (options_.has_labels) {
      if (is_other_kind) {
        absl::StrAppend(&reason_,
                        " (with a label it would be right: where lines have "
                        "none, add --labels false)");
      }
    } else if (is_other_kind) {
      reason_ =
          "the line has a label, and --labels is false; where lines have "
          "labels, leave it out";
    } else {
      absl::StrAppend(&reason_,
                      " (counting the label, which --labels false puts there)");
    }
  }

  // The line with the label 0, where the format has it.
  std::string_view WithLabel(std::string_view line) {
    const bool multi_slot =
        options_.data.format == data::DataOptions::Format::kMultiSlot;
    line_ = multi_slot ? "" : "0\t";
    line_.append(line).append(multi_slot ? " 1 0" : "");
    return line_;
  }

  const InferenceOptions& options_;
  const std::unique_ptr<data::LineParser> parser_;
  size_t next_file_ = 0;
  std::unique_ptr<data::LineReader> lines_;
  uint64_t next_number_ = 0;
  data::BadLines bad_lines_;
  std::string reason_;
  std::string line_;
};

// What the threads share. Each takes chunks, predicts them, and hands the
// scores on when those of all chunks before are: nothing piles up, since a
// thread has one chunk.
class Inference {
 public:
  Inference(const models::Model& model, const InferenceTables& tables,
            const InferenceOptions& options, const ScoreSink& sink,
            const float* parameters)
      : model_(model),
        tables_(tables),
        options_(options),
        sink_(sink),
        clock_(*options.data.clocks.monotonic),
        parameters_(parameters),
        reader_(options) {}

  absl::StatusOr<InferenceReport> Run() {
    const absl::Time start = clock_.Now();
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.num_threads; ++i) {
      threads.emplace_back([this] {
        const absl::Status status = RunThread();
        absl::MutexLock lock(&score_mutex_);
        status_.Update(status);
      });
    }
    for (std::thread& thread : threads) thread.join();
    absl::MutexLock lock(&score_mutex_);
    OARLOCK_RETURN_IF_ERROR(status_);
    report_.seconds = absl::ToDoubleSeconds(clock_.Now() - start);
    const uint64_t num_examples =
        report_.num_lines - report_.num_bad_lines - report_.num_comments;
    if (num_examples == 0 && report_.num_bad_lines > 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "no line of --files was scored: all that was read are ",
          report_.num_bad_lines,
          " malformed lines, the first of which is "
          "logged above with its file; name other files, or what these are: "
          "--data_format, --labels"));
    }
    const bool has_scores = options_.has_labels && num_examples > 0;
    report_.auc = has_scores ? histogram_.Auc() : kNoScore;
    report_.label_mean = has_scores
                             ? static_cast<double>(histogram_.num_positives()) /
                                   static_cast<double>(num_examples)
                             : kNoScore;
    report_.logloss = has_scores ? loss_sum_ / num_examples : kNoScore;
    return report_;
  }

 private:
  absl::Status RunThread() {
    const std::unique_ptr<models::ModelExecutor> executor =
        model_.NewExecutor(options_.batch_size);
    const auto step =
        std::make_shared<worker::StepBuffer>(&model_.spec(), clock_);
    Chunk chunk;
    for (;;) {
      {
        absl::MutexLock lock(&read_mutex_);
        OARLOCK_ASSIGN_OR_RETURN(const bool more,
                                 reader_.Next(&chunk, &step->batch));
        if (!more) return absl::OkStatus();
      }
      nn::StepOutput output;
      if (step->batch.num_examples > 0) {
        step->BuildKeys(tables_.parameters->partition_bits());
        step->StartPull(tables_.parameters, tables_.sparse, step);
        OARLOCK_RETURN_IF_ERROR(step->WaitForPull());
        executor->Predict(step->ModelInput(parameters_, /*gradient_scale=*/1),
                          &output);
      }
      if (!TakeScores(chunk, step->batch, output)) return absl::OkStatus();
    }
  }

  // Hands the chunk's scores on; false when another thread has failed.
  bool TakeScores(const Chunk& chunk, const data::Batch& batch,
                  const nn::StepOutput& output) {
    absl::MutexLock lock(&score_mutex_);
    const auto is_next = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(score_mutex_) {
      return next_scores_ == chunk.number || !status_.ok();
    };
    score_mutex_.Await(absl::Condition(&is_next));
    if (!status_.ok()) return false;
    ++next_scores_;
    scores_.clear();
    size_t example = 0;
    for (const bool is_example : chunk.is_example) {
      scores_.push_back(is_example ? output.predictions[example++] : kNoScore);
    }
    OARLOCK_CHECK(example == batch.num_examples);
    report_.num_lines += scores_.size();
    report_.num_bad_lines += scores_.size() - example - chunk.num_comments;
    report_.num_comments += chunk.num_comments;
    loss_sum_ += output.loss_sum;
    for (size_t i = 0; i < batch.num_examples; ++i) {
      histogram_.Add(output.predictions[i], batch.labels[i] > 0.5f);
    }
    status_.Update(sink_(scores_));
    return status_.ok();
  }

  const models::Model& model_;
  const InferenceTables& tables_;
  const InferenceOptions& options_;
  const ScoreSink& sink_;
  const Clock& clock_;
  const float* const parameters_;

  absl::Mutex read_mutex_;
  ChunkReader reader_ ABSL_GUARDED_BY(read_mutex_);

  absl::Mutex score_mutex_;
  uint64_t next_scores_ ABSL_GUARDED_BY(score_mutex_) = 0;
  // The first failure.
  absl::Status status_ ABSL_GUARDED_BY(score_mutex_);
  InferenceReport report_ ABSL_GUARDED_BY(score_mutex_);
  AucHistogram histogram_ ABSL_GUARDED_BY(score_mutex_);
  double loss_sum_ ABSL_GUARDED_BY(score_mutex_) = 0;
  std::vector<float> scores_ ABSL_GUARDED_BY(score_mutex_);
};

}  // namespace

absl::StatusOr<InferenceReport> Infer(const models::Model& model,
                                      const InferenceTables& tables,
                                      const InferenceOptions& options,
                                      const ScoreSink& sink) {
  worker::DenseParameters dense(tables.parameters, tables.dense);
  OARLOCK_RETURN_IF_ERROR(dense.Pull());
  const std::shared_ptr<const client::DenseReplica> replica = dense.Current();
  return Inference(model, tables, options, sink, replica->values.data()).Run();
}

}  // namespace oarlock
