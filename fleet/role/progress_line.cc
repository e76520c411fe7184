#include "fleet/role/progress_line.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log2_histogram.h"

namespace oarlock {
namespace {

constexpr int kBarWidth = 20;
// A rate is measured over at least this long.
constexpr absl::Duration kRateWindow = absl::Seconds(2);

std::string WithCommas(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(i, 1, ',');
  }
  return digits;
}

// ".7423", "-" where there is nothing to tell.
std::string Share(double value) {
  if (std::isnan(value)) return "-";
  std::string text = absl::StrFormat("%.4f", value);
  return text[0] == '0' ? text.substr(1) : text;
}

// Online: "train 12 part-0012 (auc before .7423)".
std::string FileText(const v1::JobStatusResponse& status,
                     const std::string& phase) {
  const v1::TrainingFile& file = status.newest_file();
  std::string text =
      absl::StrCat(phase, " ", file.epoch() + 1, " ", file.file());
  for (const v1::Evaluation& evaluation : status.evaluations()) {
    if (evaluation.work() != absl::StrCat("predict/", file.epoch())) continue;
    absl::StrAppend(&text, " (auc before ", Share(evaluation.auc()), ")");
  }
  return text;
}

std::string Bar(double done) {
  const int filled =
      std::clamp(static_cast<int>(done * kBarWidth), 0, kBarWidth);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth + 1, ' ');
  return bar;
}

}  // namespace

double ProgressLine::RateOf(const v1::PhaseProgress& progress, absl::Time now) {
  const std::string phase =
      absl::StrCat(progress.phase(), "/", progress.epoch());
  if (mark_.phase != phase) {
    mark_ = {phase, progress.examples(), now};
    rate_ = 0;
  } else if (now - mark_.time >= kRateWindow || rate_ == 0) {
    const double seconds = absl::ToDoubleSeconds(now - mark_.time);
    if (seconds > 0) rate_ = (progress.examples() - mark_.examples) / seconds;
    if (now - mark_.time >= kRateWindow) {
      mark_ = {phase, progress.examples(), now};
    }
  }
  return rate_;
}

std::string ProgressLine::Update(const v1::JobStatusResponse& status,
                                 absl::Time now) {
  if (status.phases().empty()) return "";
  const v1::PhaseStatus& phase = *status.phases().rbegin();
  const v1::PhaseProgress& progress = phase.progress();
  const double rate = RateOf(progress, now);
  std::string line =
      status.has_newest_file()
          ? FileText(status, progress.phase())
          : absl::StrFormat("%s %d/%d",
                            progress.phase() == "test" ? "test " : "epoch",
                            progress.epoch() + 1, epochs_);
  if (phase.num_examples() > 0) {
    const double done =
        static_cast<double>(progress.examples()) / phase.num_examples();
    absl::StrAppendFormat(&line, " %3.0f %%  %s", done * 100, Bar(done));
  } else {
    absl::StrAppend(&line, "  ", WithCommas(progress.examples()), " examples");
  }
  absl::StrAppend(&line, "  ", WithCommas(static_cast<uint64_t>(rate)),
                  " examples/s  loss ", Share(phase.logloss()), "  auc ",
                  Share(phase.auc()));
  if (!progress.staleness_histogram().empty()) {
    absl::StrAppendFormat(&line, "  staleness p50 %.0f p99 %.0f",
                          Log2Quantile(progress.staleness_histogram(), .5),
                          Log2Quantile(progress.staleness_histogram(), .99));
  }
  if (phase.num_examples() > progress.examples() && rate > 0) {
    absl::StrAppendFormat(&line, "  %.0f s left",
                          (phase.num_examples() - progress.examples()) / rate);
  }
  return line;
}

}  // namespace oarlock
