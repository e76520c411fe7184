#include "data/images/image_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/data/images/image_bytes.h"

namespace oarlock::data {
namespace {

// Smooth, different in each colour.
std::vector<uint8_t> Waves(uint32_t height, uint32_t width, uint32_t channels) {
  std::vector<uint8_t> pixels;
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<uint8_t>(
            128 + 100 * std::sin(0.1 * (c + 1) * x + 0.07 * y + c)));
      }
    }
  }
  return pixels;
}

int LargestDifference(const std::vector<uint8_t>& a,
                      const std::vector<uint8_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

// Gray as red, green and blue.
std::vector<uint8_t> Threefold(const std::vector<uint8_t>& gray) {
  std::vector<uint8_t> pixels;
  for (const uint8_t x : gray) pixels.insert(pixels.end(), 3, x);
  return pixels;
}

TEST(ImageDecoderTest, APngComesBackByteByByte) {
  const std::vector<uint8_t> rgb = Waves(37, 50, 3);
  const auto image = DecodeImage("the file", PngFile(37, 50, 3, rgb));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->height, 37u);
  EXPECT_EQ(image->width, 50u);
  EXPECT_EQ(image->pixels, rgb);
  const std::vector<uint8_t> gray = Waves(5, 9, 1);
  const auto from_gray = DecodeImage("the file", PngFile(5, 9, 1, gray));
  ASSERT_TRUE(from_gray.ok()) << from_gray.status();
  EXPECT_EQ(from_gray->pixels, Threefold(gray));
}

TEST(ImageDecoderTest, AJpegComesBackUpToWhatItLoses) {
  const std::vector<uint8_t> rgb = Waves(37, 50, 3);
  const auto image = DecodeImage("the file", JpegFile(37, 50, 3, rgb));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->height, 37u);
  EXPECT_EQ(image->width, 50u);
  EXPECT_LE(LargestDifference(image->pixels, rgb), 12);
  const std::vector<uint8_t> gray = Waves(16, 24, 1);
  const auto from_gray = DecodeImage("the file", JpegFile(16, 24, 1, gray));
  ASSERT_TRUE(from_gray.ok()) << from_gray.status();
  EXPECT_LE(LargestDifference(from_gray->pixels, Threefold(gray)), 12);
}

TEST(ImageDecoderTest, InksOfCmykBecomeColours) {
  std::vector<uint8_t> cmyk;
  for (int i = 0; i < 16 * 16; ++i) {
    for (const uint8_t ink : {200, 100, 50, 128}) cmyk.push_back(ink);
  }
  const auto image = DecodeImage("the file", CmykJpegFile(16, 16, cmyk));
  ASSERT_TRUE(image.ok()) << image.status();
  for (size_t i = 0; i < image->pixels.size(); i += 3) {
    ASSERT_NEAR(image->pixels[i], 100, 3);
    ASSERT_NEAR(image->pixels[i + 1], 50, 3);
    ASSERT_NEAR(image->pixels[i + 2], 25, 3);
  }
}

TEST(ImageDecoderTest, AJpegCanBeDecodedAtAFractionOfItsSize) {
  const std::string bytes = JpegFile(67, 100, 3, Waves(67, 100, 3));
  for (const uint32_t shrink : {2u, 4u, 8u}) {
    const auto image = DecodeImage("the file", bytes, shrink);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->height, (67 + shrink - 1) / shrink);
    EXPECT_EQ(image->width, (100 + shrink - 1) / shrink);
    EXPECT_EQ(image->pixels.size(), size_t{3} * image->height * image->width);
  }
}

TEST(ImageDecoderTest, TheExtentIsThatOfTheHeader) {
  for (const std::string& bytes : {JpegFile(12, 34, 3, Waves(12, 34, 3)),
                                   PngFile(12, 34, 3, Waves(12, 34, 3))}) {
    const auto extent = ReadImageExtent("the file", bytes);
    ASSERT_TRUE(extent.ok()) << extent.status();
    EXPECT_EQ(extent->height, 12u);
    EXPECT_EQ(extent->width, 34u);
  }
}

TEST(ImageDecoderTest, AFileCutAnywhereIsDataLossThatNamesIt) {
  for (const std::string& bytes : {JpegFile(40, 40, 3, Waves(40, 40, 3)),
                                   PngFile(40, 40, 3, Waves(40, 40, 3))}) {
    // The last bytes say only that it ends.
    for (size_t size = 0; size + 20 < bytes.size(); size += 7) {
      const absl::Status status =
          DecodeImage("the file", bytes.substr(0, size)).status();
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size;
      ASSERT_NE(status.message().find("the file"), std::string::npos);
      ASSERT_EQ(status.message().find('\n'), std::string::npos) << status;
    }
  }
}

TEST(ImageDecoderTest, WhatIsNoImageIsRefused) {
  for (const std::string& bytes :
       {std::string(), std::string("GIF89a and more"), std::string(1000, '\0'),
        std::string("\xff\xd8 but no jpeg"),
        std::string("\x89PNG\r\n\x1a\n but no png")}) {
    EXPECT_EQ(DecodeImage("the file", bytes).status().code(),
              absl::StatusCode::kDataLoss);
    EXPECT_EQ(ReadImageExtent("the file", bytes).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

// A header may claim what there is no memory for.
TEST(ImageDecoderTest, AnImageBeyondTheLimitIsRefusedByItsHeader) {
  std::string bytes = PngFile(4, 4, 3, Waves(4, 4, 3));
  // Width at byte 16, height at byte 20, covered by a checksum, so that it is
  // libpng that refuses.
  for (int i = 16; i < 24; ++i) bytes[i] = '\x7f';
  EXPECT_EQ(ReadImageExtent("the file", bytes).status().code(),
            absl::StatusCode::kDataLoss);
  // A JPEG's frame header has no checksum: FF C0, length, precision, sizes.
  std::string jpeg = JpegFile(8, 8, 3, Waves(8, 8, 3));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (int i = 5; i < 9; ++i) jpeg[frame + i] = i % 2 == 0 ? '\0' : '\xff';
  const absl::Status status = DecodeImage("the file", jpeg).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("65280 x 65280"), std::string::npos)
      << status;
}

}  // namespace
}  // namespace oarlock::data
