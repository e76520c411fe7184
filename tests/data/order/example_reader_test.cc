#include "data/order/example_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "data/order/source_index.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Gives out a list, and remembers what was done.
class RecordingSource : public RangeSource {
 public:
  explicit RecordingSource(std::vector<DataRange> items)
      : items_(items.begin(), items.end()) {}
  absl::StatusOr<std::optional<DataRange>> Next() override {
    if (items_.empty()) return std::nullopt;
    const DataRange item = items_.front();
    items_.pop_front();
    return item;
  }
  void Done(const DataRange& item) override { done.push_back(item.lease); }
  std::vector<uint64_t> done;

 private:
  std::deque<DataRange> items_;
};

// The first integers of the examples of a batch of NumberedLines.
std::vector<int> Numbers(const Batch& batch) {
  std::vector<int> numbers;
  for (size_t i = 0; i < batch.num_examples; ++i) {
    numbers.push_back(
        static_cast<int>(std::lround(std::expm1(batch.dense[i * 13]))));
    EXPECT_EQ(batch.labels[i], static_cast<float>(numbers.back() % 2));
  }
  return numbers;
}

std::vector<std::string> Ranges(const Batch& batch) {
  std::vector<std::string> ranges;
  for (const ExampleRange& range : batch.ranges) {
    ranges.push_back(
        absl::StrCat(range.source, ":", range.begin, "-", range.end));
  }
  return ranges;
}

// A batch as one line of text: "numbers | ranges".
std::string Text(const Batch& batch) {
  return absl::StrCat(absl::StrJoin(Numbers(batch), " "), " | ",
                      absl::StrJoin(Ranges(batch), " "));
}

class BatchReaderTest : public ::testing::Test {
 protected:
  // Lines of numbers; a negative one stands for a malformed line.
  std::string WriteNumbers(const std::string& name,
                           const std::vector<int>& numbers) {
    std::string text;
    for (const int number : numbers) {
      text += (number < 0 ? "malformed" : NumberedLine(number)) + "\n";
    }
    return folder_.Write(name, text);
  }

  BatchReader Reader(std::vector<std::string> files, RangeSource* ranges) {
    return BatchReader(options_, std::move(files), ranges, &bad_lines_);
  }

  // All batches; an error comes as the last one.
  std::vector<std::string> ReadAllBatches(BatchReader reader, size_t size) {
    std::vector<std::string> batches;
    Batch batch;
    while (true) {
      const absl::StatusOr<bool> more = reader.Next(size, &batch);
      if (!more.ok()) {
        EXPECT_EQ(batch.num_examples, 0u);
        EXPECT_EQ(reader.Next(size, &batch).status(), more.status());
        batches.push_back(more.status().ToString());
        return batches;
      }
      if (!*more) break;
      batches.push_back(Text(batch));
    }
    EXPECT_EQ(batch.num_examples, 0u);
    EXPECT_THAT(batch.ranges, IsEmpty());
    return batches;
  }

  std::vector<std::string> ReadFiles(const std::vector<std::string>& files,
                                     size_t size) {
    SharedList ranges(WholeFileItems(files.size()));
    return ReadAllBatches(Reader(files, &ranges), size);
  }

  TestFolder folder_;
  DataOptions options_;
  BadLines bad_lines_;
};

TEST_F(BatchReaderTest, ShortBatchComesOnlyAtTheEndOfThePhase) {
  const std::string a = WriteNumbers("a", {0, 1, 2});
  const std::string empty = folder_.Write("empty", "");
  const std::string b = WriteNumbers("b", {3, 4, 5, 6});
  EXPECT_THAT(ReadFiles({a, empty, b}, 2),
              ElementsAre("0 1 | 0:0-2", "2 3 | 0:2-3 2:0-1", "4 5 | 2:1-3",
                          "6 | 2:3-4"));
  EXPECT_THAT(ReadFiles({a, b}, 100),
              ElementsAre("0 1 2 3 4 5 6 | 0:0-3 1:0-4"));
  EXPECT_THAT(ReadFiles({empty}, 100), IsEmpty());
}

TEST_F(BatchReaderTest, LinesMayEndWithCarriageReturnsOrTheFile) {
  const std::string file = folder_.Write(
      "a", NumberedLine(1) + "\r\n" + NumberedLine(2) + "\n" + NumberedLine(3));
  EXPECT_THAT(ReadFiles({file}, 10), ElementsAre("1 2 3 | 0:0-3"));
  EXPECT_EQ(bad_lines_.count(), 0);
}

TEST_F(BatchReaderTest, CarriageReturnIsNoPartOfTheLastCategory) {
  std::vector<Batch> batches(2);
  const std::string line = NumberedLine(1);
  for (int i = 0; i < 2; ++i) {
    const std::string file =
        folder_.Write("a", line + (i == 0 ? "\n" : "\r\n"));
    SharedList ranges(WholeFileItems(1));
    ASSERT_TRUE(*Reader({file}, &ranges).Next(1, &batches[i]));
  }
  EXPECT_EQ(batches[0].keys, batches[1].keys);
}

TEST_F(BatchReaderTest, MalformedLinesAreSkippedCountedAndKeepTheirOrdinal) {
  const std::string file = WriteNumbers("a", {0, -1, 2, -1, 4, 5, -1});
  EXPECT_THAT(ReadFiles({file}, 2), ElementsAre("0 2 | 0:0-3", "4 5 | 0:3-6"));
  EXPECT_EQ(bad_lines_.count(), 3);
  EXPECT_THAT(bad_lines_.first(), HasSubstr(file + ":2: 1 fields"));
}

TEST_F(BatchReaderTest, OneMalformedLineTooManyEndsThePhaseNamingTheFirst) {
  options_.bad_lines_max = 2;
  const std::string good = WriteNumbers("good", {0, -1, 2, -1, 4});
  EXPECT_THAT(ReadFiles({good}, 10), ElementsAre("0 2 4 | 0:0-5"));
  bad_lines_.StartPhase();
  const std::string bad = WriteNumbers("bad", {-1, 1, -1, -1, 4});
  const auto batches = ReadFiles({bad}, 1);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0], "1 | 0:0-2");
  EXPECT_THAT(batches[1], HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(batches[1], HasSubstr("malformed lines: 3, at most 2"));
  EXPECT_THAT(batches[1], HasSubstr(good + ":2: 1 fields"));
}

TEST_F(BatchReaderTest, BlankLinesAreMalformed) {
  const std::string file = folder_.Write("a", "\n" + NumberedLine(1) + "\n\n");
  EXPECT_THAT(ReadFiles({file}, 2), ElementsAre("1 | 0:0-3"));
  EXPECT_EQ(bad_lines_.count(), 2);
}

TEST_F(BatchReaderTest, BinaryFileEndsThePhaseAtOnce) {
  std::string bytes(1 << 20, '\0');
  RandomSequence random(5);
  for (char& c : bytes) c = static_cast<char>(random());
  const auto batches = ReadFiles({folder_.Write("binary", bytes)}, 2);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_THAT(batches[0], HasSubstr("binary is not text"));
}

TEST_F(BatchReaderTest, HugeLineIsAnErrorWithItsPlace) {
  const std::string file = folder_.Write(
      "a", NumberedLine(0) + "\n" + std::string(3 << 20, 'x') + "\n");
  const auto batches = ReadFiles({file}, 1);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_THAT(batches[1], HasSubstr(file + ":2: the line is longer"));
}

TEST_F(BatchReaderTest, MissingFileIsNotFound) {
  const auto batches = ReadFiles({folder_.Path("absent")}, 1);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_THAT(batches[0], HasSubstr("NOT_FOUND"));
}

TEST_F(BatchReaderTest, ItemIsDoneByTheCallAfterItsLastExample) {
  const std::string file = WriteNumbers("a", {0, 1, 2, 3, 4, -1, 6});
  RecordingSource ranges({
      {.source = 0, .begin = 0, .end = 2, .lease = 1},
      {.source = 0, .begin = 2, .end = 5, .lease = 2},
      {.source = 0, .begin = 5, .end = 6, .lease = 3},  // malformed
      {.source = 0, .begin = 6, .end = 7, .lease = 4},
  });
  BatchReader reader = Reader({file}, &ranges);
  Batch batch;
  ASSERT_TRUE(*reader.Next(2, &batch));
  EXPECT_EQ(Text(batch), "0 1 | 0:0-2");
  EXPECT_THAT(ranges.done, IsEmpty());
  ASSERT_TRUE(*reader.Next(2, &batch));
  EXPECT_EQ(Text(batch), "2 3 | 0:2-4");
  EXPECT_THAT(ranges.done, ElementsAre(1));
  ASSERT_TRUE(*reader.Next(2, &batch));
  EXPECT_EQ(Text(batch), "4 6 | 0:4-7");
  // Nobody has an example of item 3.
  EXPECT_THAT(ranges.done, ElementsAre(1, 3));
  ASSERT_FALSE(*reader.Next(2, &batch));
  EXPECT_THAT(ranges.done, ElementsAre(1, 3, 2, 4));
}

TEST_F(BatchReaderTest, NothingIsDoneAfterAnError) {
  options_.bad_lines_max = 0;
  const std::string file = WriteNumbers("a", {0, -1});
  RecordingSource ranges({{.end = 1, .lease = 1}, {.begin = 1, .lease = 2}});
  BatchReader reader = Reader({file}, &ranges);
  Batch batch;
  EXPECT_FALSE(reader.Next(2, &batch).ok());
  EXPECT_FALSE(reader.Next(2, &batch).ok());
  EXPECT_THAT(ranges.done, IsEmpty());
}

TEST_F(BatchReaderTest, ItemsOfAnyOrderAndOffsetAgreeWithTheLines) {
  std::cout << "seed 11\n";
  RandomSequence random(11);
  std::vector<int> numbers;
  std::string text;
  std::vector<uint64_t> starts;
  for (int i = 0; i < 500; ++i) {
    starts.push_back(text.size());
    text += NumberedLine(i) + "\n";
  }
  const std::string file = folder_.Write("a", text);
  std::vector<DataRange> items;
  std::vector<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    DataRange item;
    item.begin = random.Below(500);
    item.end =
        item.begin + 1 + random.Below(std::min<uint64_t>(7, 500 - item.begin));
    if (random.Below(2) == 0) {
      item.skip_lines = random.Below(item.begin + 1);
      item.byte_offset = starts[item.begin - item.skip_lines];
    }
    item.ends_batch = true;
    items.push_back(item);
    std::vector<uint64_t> lines;
    for (uint64_t k = item.begin; k < item.end; ++k) lines.push_back(k);
    expected.push_back(absl::StrCat(absl::StrJoin(lines, " "),
                                    " | 0:", item.begin, "-", item.end));
  }
  SharedList ranges(items);
  EXPECT_EQ(ReadAllBatches(Reader({file}, &ranges), 100), expected);
}

TEST_F(BatchReaderTest, ItemBeyondTheFileSaysThatItChanged) {
  const std::string file = WriteNumbers("a", {0, 1});
  SharedList ranges({DataRange{.end = 3}});
  const auto batches = ReadAllBatches(Reader({file}, &ranges), 3);
  EXPECT_THAT(batches[0], HasSubstr("ends after 2 lines, but lines up to 3"));
}

TEST_F(BatchReaderTest, WhatCannotBeReadIsLeftOutWhereThatIsAskedFor) {
  options_.leave_out_unreadable = true;
  const std::string shorter = WriteNumbers("a", {0, 1});
  const std::string whole = WriteNumbers("b", {2, 3});
  std::vector<DataRange> items = {
      {.source = 0, .end = 3},              // ends too soon
      {.source = 1, .end = 3},              // is not there
      {.source = 1, .begin = 3, .end = 5},  // nor is this
      {.source = 2, .end = 2},
  };
  for (size_t i = 0; i < items.size(); ++i) items[i].lease = i + 1;
  RecordingSource ranges(items);
  EXPECT_THAT(ReadAllBatches(
                  Reader({shorter, folder_.Path("gone"), whole}, &ranges), 3),
              ElementsAre("0 1 2 | 0:0-2 2:0-1", "3 | 2:1-2"));
  // All of them are done, each once.
  std::sort(ranges.done.begin(), ranges.done.end());
  EXPECT_THAT(ranges.done, ElementsAre(1u, 2u, 3u, 4u));
}

TEST_F(BatchReaderTest, ItemOfAnUnknownSourceIsRejected) {
  SharedList ranges({DataRange{.source = 1}});
  const auto batches =
      ReadAllBatches(Reader({WriteNumbers("a", {0})}, &ranges), 3);
  EXPECT_THAT(batches[0], HasSubstr("source 1"));
}

class PipeTest : public BatchReaderTest {
 protected:
  // No child is left, alive or as a zombie.
  static void ExpectNoChildren() {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }
};

TEST_F(PipeTest, ExamplesComeFromTheCommandOfEachFile) {
  const std::string a = WriteNumbers("a", {0, 1, 2});
  const std::string b = WriteNumbers("b", {3, 4});
  options_.pipe_command = "sed 's/^malformed$//' | cat";
  EXPECT_THAT(ReadFiles({a, b}, 4),
              ElementsAre("0 1 2 3 | 0:0-3 1:0-1", "4 | 1:1-2"));
  ExpectNoChildren();
}

TEST_F(PipeTest, MultiSlotTextOfACommandIsParsed) {
  options_.format = DataOptions::Format::kMultiSlot;
  options_.multi_slot_dense_dim = 1;
  options_.multi_slot_num_slots = 1;
  options_.pipe_command = "awk '{print 1, $1 / 2, 1, $2, 1, $3}'";
  SharedList ranges(WholeFileItems(1));
  BatchReader reader = Reader({folder_.Write("a", "3 7 0\n5 8 1\n")}, &ranges);
  Batch batch;
  ASSERT_TRUE(*reader.Next(5, &batch));
  EXPECT_THAT(batch.dense, ElementsAre(1.5, 2.5));
  EXPECT_THAT(batch.keys, ElementsAre(Key{7}, Key{8}));
  EXPECT_THAT(batch.labels, ElementsAre(0, 1));
  EXPECT_FALSE(*reader.Next(5, &batch));
  ExpectNoChildren();
}

TEST_F(PipeTest, RangesOfAPipeAreReadByCounting) {
  options_.pipe_command = "cat";
  const std::string file = WriteNumbers("a", {0, 1, 2, 3, 4, 5});
  SharedList ranges(
      {{.begin = 1, .end = 3}, {.begin = 4}, {.begin = 0, .end = 1}});
  EXPECT_THAT(ReadAllBatches(Reader({file}, &ranges), 9),
              ElementsAre("1 2 4 5 0 | 0:1-3 0:4-6 0:0-1"));
  ExpectNoChildren();
}

TEST_F(PipeTest, FailingCommandIsAnErrorWithItsStatus) {
  options_.pipe_command = "cat; exit 3";
  const std::string file = WriteNumbers("a", {0, 1});
  auto batches = ReadFiles({file}, 1);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_THAT(batches[2], HasSubstr("pipe_command 'cat; exit 3' on '" + file +
                                    "' failed with exit status 3"));
  options_.pipe_command = "kill -9 $$";
  batches = ReadFiles({file}, 1);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_THAT(batches[0], HasSubstr("signal 9"));
  options_.pipe_command = "/no/such/command";
  batches = ReadFiles({file}, 1);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_THAT(batches[0], HasSubstr("exit status 127"));
  ExpectNoChildren();
}

TEST_F(PipeTest, CommandClosedEarlyIsKilledWithItsChildren) {
  // Ends only when killed; the grandchild holds a pipe open as long as it
  // lives.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  options_.pipe_command =
      "head -n 1; sh -c 'sleep 600; true' & sleep 600; true";
  {
    SharedList ranges(WholeFileItems(1));
    BatchReader reader = Reader({WriteNumbers("a", {0, 1, 2})}, &ranges);
    Batch batch;
    ASSERT_TRUE(*reader.Next(1, &batch));
    EXPECT_EQ(Text(batch), "0 | 0:0-1");
  }
  ExpectNoChildren();
  // End of file when nobody has the other end any more: read blocks otherwise,
  // and the test runs into its time limit.
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST_F(PipeTest, CommandDiesWithAReaderThatIsKilled) {
  // As above, and the command writes nothing that would tell it.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  options_.pipe_command =
      "head -n 1; sh -c 'sleep 600; true' & sleep 600; true";
  const std::string file = WriteNumbers("a", {0, 1, 2});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    SharedList ranges(WholeFileItems(1));
    BatchReader reader = Reader({file}, &ranges);
    Batch batch;
    const absl::StatusOr<bool> more = reader.Next(1, &batch);
    if (more.ok() && *more) kill(getpid(), SIGKILL);
    _exit(1);
  }
  close(ends[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST_F(PipeTest, CommandThatLeavesItsGroupIsKilledAllTheSame) {
  options_.pipe_command = "head -n 1; exec setsid sleep 600";
  {
    SharedList ranges(WholeFileItems(1));
    BatchReader reader = Reader({WriteNumbers("a", {0, 1, 2})}, &ranges);
    Batch batch;
    ASSERT_TRUE(*reader.Next(1, &batch));
  }
  ExpectNoChildren();
}

TEST_F(BatchReaderTest, RealRowsHaveNoMalformedLine) {
  const char* const dir = getenv("OARLOCK_DATA_DIR");
  const std::string packed = absl::StrCat(
      dir == nullptr ? "" : dir, "/criteo/criteo_kaggle_sample_137k.txt.xz");
  if (dir == nullptr || access(packed.c_str(), R_OK) != 0) {
    GTEST_SKIP() << "no real rows: OARLOCK_DATA_DIR does not name them";
  }
  if (system("command -v xz >/dev/null") != 0) {
    GTEST_SKIP() << "no real rows: the xz program is missing";
  }
  options_.pipe_command = "xz -dc";
  options_.bad_lines_max = 0;
  SharedList ranges(WholeFileItems(1));
  BatchReader reader = Reader({packed}, &ranges);
  Batch batch;
  size_t num_examples = 0;
  double clicks = 0;
  while (true) {
    const absl::StatusOr<bool> more = reader.Next(1000, &batch);
    ASSERT_TRUE(more.ok()) << more.status();
    if (!*more) break;
    num_examples += batch.num_examples;
    for (const float label : batch.labels) clicks += label;
  }
  EXPECT_EQ(num_examples, 137139u);
  EXPECT_EQ(clicks, 35213);
}

}  // namespace
}  // namespace oarlock::data
