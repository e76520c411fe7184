// What every format does with input that is not as it should be; docs/data.md
// has the same in words.

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "data/order/example_reader.h"
#include "data/order/source_index.h"
#include "data/parse/bad_lines.h"
#include "data/reader/line_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/reader/compressing.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct FormatCase {
  std::string name;
  DataOptions::Format format;
  // A line whose label is that of the number.
  std::string (*line)(int number);
  // A line without any value but the label 1.
  std::string nothing_there;
};

std::string MultiSlotLine(int number) {
  return absl::StrCat("1 0.5 2 ", number, " 7 1 3 1 ", number % 2);
}
std::string LibsvmLine(int number) {
  return absl::StrCat(number % 2, " ", number, ":1 7:0.5");
}

std::vector<FormatCase> Formats() {
  return {{"criteo", DataOptions::Format::kCriteo, NumberedLine,
           "1" + std::string(39, '\t')},
          {"multi_slot", DataOptions::Format::kMultiSlot, MultiSlotLine,
           "1 0 0 0 1 1"},
          {"libsvm", DataOptions::Format::kLibsvm, LibsvmLine, "1"}};
}

class InputEdgesTest : public ::testing::TestWithParam<FormatCase> {
 protected:
  InputEdgesTest() {
    options_.format = GetParam().format;
    options_.multi_slot_dense_dim = 1;
    options_.multi_slot_num_slots = 2;
    options_.bad_lines_max = 3;
  }

  // All labels of a file, or why reading it failed.
  absl::StatusOr<std::vector<float>> Labels(const std::string& path) {
    SharedList ranges(WholeFileItems(1));
    BatchReader reader(options_, {path}, &ranges, &bad_lines_);
    std::vector<float> labels;
    Batch batch;
    while (true) {
      const auto more = reader.Next(2, &batch);
      if (!more.ok()) return more.status();
      if (!*more) return labels;
      labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
      for (const float x : batch.dense) EXPECT_TRUE(std::isfinite(x));
    }
  }

  std::string Lines(const std::string& end) {
    std::string text;
    for (const int number : {1, 2, 3}) {
      absl::StrAppend(&text, GetParam().line(number), end);
    }
    return text;
  }

  TestFolder folder_;
  DataOptions options_;
  BadLines bad_lines_;
};

TEST_P(InputEdgesTest, EndsOfLinesDoNotMatterNorDoesAByteOrderMark) {
  const std::string text = Lines("\n");
  for (const std::string& content :
       {text, Lines("\r\n"), text.substr(0, text.size() - 1),
        absl::StrCat("\xef\xbb\xbf", text),
        absl::StrCat("\xef\xbb\xbf", Lines("\r\n"))}) {
    EXPECT_THAT(*Labels(folder_.Write("data", content)), ElementsAre(1, 0, 1));
  }
  EXPECT_EQ(bad_lines_.count(), 0);
}

TEST_P(InputEdgesTest, CompressedFilesAreReadByTheirNames) {
  EXPECT_THAT(*Labels(folder_.Write("a.gz", Gzip(Lines("\n")))),
              ElementsAre(1, 0, 1));
  EXPECT_THAT(*Labels(folder_.Write("a.xz", Xz(Lines("\n")))),
              ElementsAre(1, 0, 1));
  EXPECT_THAT(*Labels(folder_.Write("a.zst", Zstd(Lines("\r\n")))),
              ElementsAre(1, 0, 1));
  const auto damaged =
      Labels(folder_.Write("b.zst", Zstd(Lines("\n")).substr(0, 30)));
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("b.zst"));
  const auto unnamed = Labels(folder_.Write("c", Zstd(Lines("\n"))));
  EXPECT_THAT(std::string(unnamed.status().message()), HasSubstr(".zst"));
}

TEST_P(InputEdgesTest, EmptyFilesHaveNoExamples) {
  EXPECT_THAT(*Labels(folder_.Write("data", "")), IsEmpty());
  EXPECT_THAT(*Labels(folder_.Write("a.zst", Zstd(""))), IsEmpty());
  EXPECT_THAT(*Labels(folder_.Write("a.gz", Gzip(""))), IsEmpty());
  const auto index =
      BuildSourceIndex({folder_.Path("data"), folder_.Path("a.zst")}, 8, 1);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->total_examples(), 0u);
  EXPECT_THAT(index->Items(), IsEmpty());
}

TEST_P(InputEdgesTest, ALineWithNothingButItsLabelIsAnExample) {
  if (GetParam().format == DataOptions::Format::kMultiSlot) {
    // But dense features are never left out.
    options_.multi_slot_dense_dim = 0;
    EXPECT_THAT(*Labels(folder_.Write("data", "0 0 1 1\n")), ElementsAre(1));
    return;
  }
  EXPECT_THAT(*Labels(folder_.Write("data", GetParam().nothing_there + "\n")),
              ElementsAre(1));
  EXPECT_EQ(bad_lines_.count(), 0);
}

TEST_P(InputEdgesTest, BlankAndTornLinesAreCountedAndSkipped) {
  const std::string line = GetParam().line(1);
  const std::string torn = line.substr(0, line.size() - 1) + "\tx";
  EXPECT_THAT(*Labels(folder_.Write(
                  "data", absl::StrCat("\n", torn, "\n", line, "\n\n"))),
              ElementsAre(1));
  EXPECT_EQ(bad_lines_.count(), 3);
  const auto fourth = Labels(folder_.Write("more", torn + "\n"));
  EXPECT_EQ(fourth.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(fourth.status().message()), HasSubstr("data:1"));
}

TEST_P(InputEdgesTest, CommentsAreNotCountedWhereTheFormatHasThem) {
  const std::string path =
      folder_.Write("data", absl::StrCat("# by a tool\n", GetParam().line(1),
                                         "\n  #\n", GetParam().line(2), "\n"));
  EXPECT_THAT(*Labels(path), ElementsAre(1, 0));
  EXPECT_EQ(bad_lines_.count(),
            GetParam().format == DataOptions::Format::kLibsvm ? 0 : 2);
}

TEST_P(InputEdgesTest, ALineOverTheLimitIsAnErrorWithItsPlace) {
  const auto labels = Labels(folder_.Write(
      "data", absl::StrCat(GetParam().line(1), "\n",
                           std::string(kMaxLineBytes + 1, '1'), "\n")));
  EXPECT_EQ(labels.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(labels.status().message()), HasSubstr("data:2"));
  EXPECT_THAT(std::string(labels.status().message()),
              HasSubstr(absl::StrCat(kMaxLineBytes)));
}

TEST_P(InputEdgesTest, NulBytesMakeAFileBinary) {
  const auto labels =
      Labels(folder_.Write("data", GetParam().line(1) + std::string(2, '\0')));
  EXPECT_EQ(labels.status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Formats, InputEdgesTest,
                         ::testing::ValuesIn(Formats()),
                         [](const auto& info) { return info.param.name; });

// A command that writes something else than multi-slot text.
TEST(PipeEdgesTest, MalformedOutputOfACommandIsMalformedLines) {
  const TestFolder folder;
  DataOptions options;
  options.format = DataOptions::Format::kMultiSlot;
  options.multi_slot_dense_dim = 1;
  options.multi_slot_num_slots = 2;
  options.bad_lines_max = 1;
  const std::string file = folder.Write(
      "data", "1 0.5 2 5 7 1 3 1 1\n1 0.5 3 5 7 1 3 1 1\n1 0.5 2 5\n");
  options.pipe_command = "cat";
  SharedList ranges(WholeFileItems(1));
  BadLines bad_lines;
  BatchReader reader(options, {file}, &ranges, &bad_lines);
  Batch batch;
  const auto more = reader.Next(10, &batch);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kInvalidArgument);
  // The second line's first slot says 3 values: the count of the next is one.
  EXPECT_THAT(bad_lines.first(), HasSubstr("data:2"));
}

}  // namespace
}  // namespace oarlock::data
