#include "data/reader/line_reader.h"

#include <sys/stat.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Hands out a text in random pieces.
class TextSource : public ByteSource {
 public:
  TextSource(std::string text, uint64_t seed)
      : text_(std::move(text)), random_(seed) {}
  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    size_t n = std::min<size_t>(text_.size() - at_, size);
    if (n > 1) n = 1 + random_.Below(n);
    text_.copy(data, n, at_);
    at_ += n;
    return n;
  }
  absl::Status Seek(uint64_t offset) override {
    at_ = std::min<size_t>(offset, text_.size());
    ++num_seeks;
    return absl::OkStatus();
  }
  int num_seeks = 0;

 private:
  const std::string text_;
  size_t at_ = 0;
  RandomSequence random_;
};

LineReader Reader(const std::string& text, uint64_t seed = 1) {
  return LineReader("text", std::make_unique<TextSource>(text, seed));
}

std::vector<std::string> Lines(LineReader& reader) {
  std::vector<std::string> lines;
  std::string_view line;
  while (reader.Next(&line)) lines.emplace_back(line);
  EXPECT_FALSE(reader.Next(&line));
  return lines;
}

std::vector<std::string> LinesOf(const std::string& text) {
  LineReader reader = Reader(text);
  std::vector<std::string> lines = Lines(reader);
  EXPECT_TRUE(reader.status().ok()) << reader.status();
  EXPECT_EQ(reader.line_number(), lines.size());
  return lines;
}

TEST(LineReaderTest, LinesEndWithNewlineCarriageReturnOrTheSource) {
  EXPECT_THAT(LinesOf(""), IsEmpty());
  EXPECT_THAT(LinesOf("\n"), ElementsAre(""));
  EXPECT_THAT(LinesOf("a"), ElementsAre("a"));
  EXPECT_THAT(LinesOf("a\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_THAT(LinesOf("a\r\nb\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(LinesOf("a\rb\r"), ElementsAre("a\rb"));
}

TEST(LineReaderTest, RandomLinesInRandomPiecesComeOutWhole) {
  std::cout << "seeds 0 to 9\n";
  for (uint64_t seed = 0; seed < 10; ++seed) {
    RandomSequence random(seed);
    std::vector<std::string> lines;
    std::string text;
    for (int i = 0; i < 300; ++i) {
      lines.emplace_back(random.Below(i % 50 == 0 ? 200'000 : 300),
                         'a' + i % 26);
      text += lines.back() + "\n";
    }
    LineReader reader = Reader(text, seed);
    EXPECT_EQ(Lines(reader), lines);
  }
}

TEST(LineReaderTest, TheLongestLineIsReadAndALongerOneIsAnError) {
  const std::string longest(kMaxLineBytes, 'x');
  EXPECT_THAT(LinesOf("a\n" + longest + "\r\nb"),
              ElementsAre("a", longest, "b"));
  for (const std::string end : {"", "\n", "\r\n", "y and more"}) {
    LineReader reader = Reader("a\n" + longest + "x" + end);
    EXPECT_THAT(Lines(reader), ElementsAre("a"));
    EXPECT_EQ(reader.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(reader.status().message(), HasSubstr("text:2: the line is"));
  }
}

TEST(LineReaderTest, AnEndlessLineIsAnErrorWithoutReadingToItsEnd) {
  LineReader reader = Reader(std::string(20 << 20, 'x'));
  EXPECT_THAT(Lines(reader), IsEmpty());
  EXPECT_THAT(reader.status().message(), HasSubstr("text:1"));
}

TEST(LineReaderTest, AByteOrderMarkIsNoPartOfTheFirstLine) {
  LineReader reader = Reader("\xef\xbb\xbfone\n\xef\xbb\xbftwo\n");
  EXPECT_THAT(Lines(reader), ElementsAre("one", "\xef\xbb\xbftwo"));
  LineReader only_mark = Reader("\xef\xbb\xbf");
  EXPECT_THAT(Lines(only_mark), IsEmpty());
  LineReader with_end = Reader("\xef\xbb\xbf\n");
  EXPECT_THAT(Lines(with_end), ElementsAre(""));
}

TEST(LineReaderTest, BinaryAndCompressedSourcesAreErrors) {
  TestFolder folder;
  const auto status_of = [&](const std::string& bytes) {
    LineReader reader("data", *OpenFile(folder.Write("data", bytes)));
    EXPECT_THAT(Lines(reader), IsEmpty());
    EXPECT_EQ(reader.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(reader.status().message());
  };
  EXPECT_THAT(status_of(std::string("line\n\0\1\2", 8)),
              HasSubstr("data is not text: byte 5 is NUL"));
  EXPECT_THAT(status_of("\x1f\x8b rest"), HasSubstr("does not end in .gz"));
  EXPECT_THAT(status_of("\xfd"
                        "7zXZ rest"),
              HasSubstr("does not end in .xz"));
  EXPECT_THAT(status_of("\x28\xb5\x2f\xfd rest"),
              HasSubstr("does not end in .zst"));
}

TEST(LineReaderTest, SeekAgreesWithTheTextForwardsAndBackwards) {
  std::cout << "seed 3\n";
  RandomSequence random(3);
  std::string text;
  std::vector<size_t> starts;
  for (int i = 0; i < 20'000; ++i) {
    starts.push_back(text.size());
    text += std::string(random.Below(200), 'a') + std::to_string(i) + "\n";
  }
  auto source = std::make_unique<TextSource>(text, 3);
  TextSource* const source_view = source.get();
  LineReader reader("text", std::move(source));
  std::string_view line;
  for (int i = 0; i < 1000; ++i) {
    const size_t at = random.Below(starts.size());
    ASSERT_TRUE(reader.Seek(starts[at], at).ok());
    for (size_t k = at; k < std::min(at + 3, starts.size()); ++k) {
      EXPECT_EQ(reader.line_number(), k);
      ASSERT_TRUE(reader.Next(&line));
      ASSERT_EQ(line, text.substr(starts[k], line.size()));
      ASSERT_EQ(text[starts[k] + line.size()], '\n');
    }
  }
  // Forwards by little steps, as an interleaved split does, needs no seek.
  ASSERT_TRUE(reader.Seek(0, 0).ok());
  source_view->num_seeks = 0;
  for (size_t at = 0; at < 100; at += 2) {
    ASSERT_TRUE(reader.Seek(starts[at], at).ok());
    ASSERT_TRUE(reader.Next(&line));
  }
  EXPECT_LT(source_view->num_seeks, 50);
}

TEST(LineReaderTest, SkipSaysHowManyLinesThereWere) {
  LineReader reader = Reader("a\nb\nc\n");
  EXPECT_EQ(reader.Skip(2), 2u);
  std::string_view line;
  ASSERT_TRUE(reader.Next(&line));
  EXPECT_EQ(line, "c");
  EXPECT_EQ(reader.Skip(2), 0u);
}

TEST(ByteSourceTest, OpeningWhatIsNotThereSaysWhich) {
  const auto source = OpenFile("/no/such/file");
  EXPECT_EQ(source.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(source.status().message(), HasSubstr("'/no/such/file'"));
}

TEST(ByteSourceTest, OpeningAPipeIsRefusedAtOnce) {
  TestFolder folder;
  const std::string path = folder.Path("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  // Nobody writes: opening it would wait for ever.
  const absl::Status status = OpenFile(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("'" + path + "' is a pipe; legal"));
}

}  // namespace
}  // namespace oarlock::data
