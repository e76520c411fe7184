#include "data/reader/compressed_source.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/data/reader/compressing.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kSeed = 11;

struct Format {
  Compression compression;
  std::string suffix;
  std::string (*compress)(std::string_view);
};

const std::vector<Format>& Formats() {
  static const auto* const formats = new std::vector<Format>{
      {Compression::kNone, "",
       [](std::string_view b) { return std::string(b); }},
      {Compression::kGzip, ".gz", Gzip},
      {Compression::kXz, ".xz", Xz},
      {Compression::kZstd, ".zst", Zstd}};
  return *formats;
}

// Runs of equal bytes and noise.
std::string RandomBytes(RandomSequence& random, size_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    if (random.Below(2) == 0) {
      bytes.append(random.Below(300), static_cast<char>(random()));
    } else {
      for (int i = 0; i < 50; ++i) bytes += static_cast<char>(random());
    }
  }
  bytes.resize(size);
  return bytes;
}

// Reads to the end in pieces of up to `most` bytes.
absl::StatusOr<std::string> ReadEnd(ByteSource* source, RandomSequence& random,
                                    size_t most) {
  std::string bytes;
  std::string piece(most, '\0');
  while (true) {
    const auto n = source->Read(piece.data(), 1 + random.Below(most));
    if (!n.ok()) return n.status();
    if (*n == 0) return bytes;
    bytes.append(piece, 0, *n);
  }
}

TEST(CompressedSourceTest, GivesWhatWasCompressedWhateverThePieces) {
  RandomSequence random(kSeed);
  for (const Format& format : Formats()) {
    for (const size_t size : {0, 1, 1000, 300'000}) {
      for (const size_t piece : {size_t{7}, size_t{4096}, ~size_t{0}}) {
        SCOPED_TRACE(testing::Message() << "seed " << kSeed << format.suffix
                                        << " " << size << " by " << piece);
        const std::string bytes = RandomBytes(random, size);
        const auto source = Decompress(
            format.compression, "name",
            std::make_unique<BytesSource>(format.compress(bytes), piece));
        const auto read = ReadEnd(source.get(), random, 70'000);
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_TRUE(*read == bytes);
        char more;
        EXPECT_EQ(*source->Read(&more, 1), 0u);
      }
    }
  }
}

TEST(CompressedSourceTest, StreamsInARowAreOneAfterTheOther) {
  RandomSequence random(kSeed);
  for (const Format& format : Formats()) {
    const std::string a = RandomBytes(random, 5000);
    const std::string b = RandomBytes(random, 70'000);
    for (const size_t piece : {size_t{1}, ~size_t{0}}) {
      const auto source =
          Decompress(format.compression, "name",
                     std::make_unique<BytesSource>(
                         format.compress(a) + format.compress(b), piece));
      const auto read = ReadEnd(source.get(), random, 9000);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(*read == a + b) << format.suffix;
    }
  }
}

TEST(CompressedSourceTest, AFileThatEndsEarlyIsDataLossWhereverItEnds) {
  RandomSequence random(kSeed);
  const std::string bytes = RandomBytes(random, 400);
  for (const Format& format : Formats()) {
    if (format.compression == Compression::kNone) continue;
    const std::string whole = format.compress(bytes);
    // Nothing at all is nothing for gzip, as gunzip has it; not for xz.
    for (size_t size = 1; size < whole.size(); ++size) {
      SCOPED_TRACE(testing::Message() << format.suffix << " " << size);
      const auto source =
          Decompress(format.compression, "the name",
                     std::make_unique<BytesSource>(whole.substr(0, size)));
      const absl::Status status = ReadEnd(source.get(), random, 100).status();
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      ASSERT_NE(status.message().find("the name"), std::string::npos);
      ASSERT_EQ(status.message().find('\n'), std::string::npos);
      // It stays failed.
      char more;
      ASSERT_EQ(source->Read(&more, 1).status(), status);
    }
  }
}

TEST(CompressedSourceTest, AFlippedByteIsNeverTakenForOtherData) {
  RandomSequence random(kSeed);
  const std::string bytes = RandomBytes(random, 600);
  for (const Format& format : Formats()) {
    if (format.compression == Compression::kNone) continue;
    const std::string whole = format.compress(bytes);
    int num_refused = 0;
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] ^= 0x21;
      const auto source = Decompress(format.compression, "name",
                                     std::make_unique<BytesSource>(damaged));
      const auto read = ReadEnd(source.get(), random, 100);
      // Gzip's header has bytes that mean nothing here: time, system.
      if (read.ok()) {
        EXPECT_TRUE(*read == bytes) << format.suffix << " byte " << at;
      } else {
        ++num_refused;
      }
    }
    EXPECT_GE(num_refused, static_cast<int>(whole.size()) - 10)
        << format.suffix;
  }
}

TEST(CompressedSourceTest, BytesAfterTheEndAreDataLoss) {
  RandomSequence random(kSeed);
  for (const Format& format : Formats()) {
    if (format.compression == Compression::kNone) continue;
    const auto source =
        Decompress(format.compression, "name",
                   std::make_unique<BytesSource>(format.compress("text") +
                                                 "what is this"));
    EXPECT_EQ(ReadEnd(source.get(), random, 100).status().code(),
              absl::StatusCode::kDataLoss)
        << format.suffix;
  }
}

TEST(CompressedSourceTest, ZerosBehindGzipArePadding) {
  RandomSequence random(kSeed);
  for (const Format& format : Formats()) {
    if (format.compression != Compression::kGzip) continue;
    const std::string padded =
        format.compress("text") + std::string(1000, '\0');
    const auto source = Decompress(format.compression, "name",
                                   std::make_unique<BytesSource>(padded));
    const auto text = ReadEnd(source.get(), random, 100);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, "text");
    const auto spoilt = Decompress(format.compression, "name",
                                   std::make_unique<BytesSource>(padded + "x"));
    EXPECT_EQ(ReadEnd(spoilt.get(), random, 100).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(CompressedSourceTest, ZstdThatLooksBackTooFarIsResourceExhausted) {
  RandomSequence random(kSeed);
  // A frame's header says how far; the bytes need not be so many.
  const auto source =
      Decompress(Compression::kZstd, "name",
                 std::make_unique<BytesSource>(
                     Zstd(RandomBytes(random, 1000), /*window_log=*/28)));
  const absl::Status status = ReadEnd(source.get(), random, 100).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(status.message().find("128 MiB"), std::string::npos) << status;
}

TEST(CompressedSourceTest, TheNameTellsTheFormatOfAFile) {
  const TestFolder folder;
  RandomSequence random(kSeed);
  for (const Format& format : Formats()) {
    const std::string path =
        folder.Write("file" + format.suffix, format.compress("some text"));
    EXPECT_EQ(CompressionOf(path), format.compression);
    const auto source = OpenDecompressed(path);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(*ReadEnd(source->get(), random, 3), "some text");
  }
  EXPECT_EQ(OpenDecompressed(folder.Path("none.gz")).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace oarlock::data
