#include "data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/check.h"

namespace oarlock::data {
namespace {

// The source pixels, along a side, of one pixel of the result. They start at
// `first`; their weights add up to 1.
struct Taps {
  size_t first = 0;
  std::vector<float> weights;
};

// The taps of a resize along a side: [begin, begin + length) of a side of
// `limit` pixels becomes `size` pixels.
std::vector<Taps> TapsOf(double begin, double length, size_t limit,
                         size_t size) {
  const double scale = length / static_cast<double>(size);
  const double reach = std::max(scale, 1.0);
  // The whole pixels that the part touches; other pixels are not used.
  const double low = std::floor(begin);
  const double high =
      std::min(std::ceil(begin + length), static_cast<double>(limit));
  std::vector<Taps> taps(size);
  for (size_t i = 0; i < size; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    const double from = std::max(low, std::floor(centre - reach));
    const double to = std::min(high, std::ceil(centre + reach));
    taps[i].first = static_cast<size_t>(from);
    double sum = 0;
    for (double x = from; x < to; ++x) {
      const double weight =
          std::max(0.0, 1 - std::abs(x + 0.5 - centre) / reach);
      taps[i].weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps[i].weights) {
      weight = static_cast<float>(weight / sum);
    }
  }
  return taps;
}

}  // namespace

void ResizeArea(const RgbImage& image, const ImageArea& area, uint32_t height,
                uint32_t width, uint8_t* pixels) {
  OARLOCK_CHECK(height >= 1 && width >= 1);
  OARLOCK_CHECK(area.top >= 0 && area.left >= 0 && area.height > 0 &&
                area.width > 0 && area.top + area.height <= image.height &&
                area.left + area.width <= image.width);
  const std::vector<Taps> columns =
      TapsOf(area.left, area.width, image.width, width);
  const std::vector<Taps> rows =
      TapsOf(area.top, area.height, image.height, height);
  const size_t row_size = size_t{3} * width;
  const size_t first_row = rows.front().first;
  const size_t last_row = rows.back().first + rows.back().weights.size();
  // The rows of the image that are needed, at the width of the result.
  std::vector<float> narrow((last_row - first_row) * row_size);
  for (size_t y = first_row; y < last_row; ++y) {
    const uint8_t* row = image.pixels.data() + 3 * y * image.width;
    float* out = narrow.data() + (y - first_row) * row_size;
    for (size_t x = 0; x < width; ++x) {
      const uint8_t* in = row + 3 * columns[x].first;
      float sum[3] = {};
      for (const float weight : columns[x].weights) {
        for (int c = 0; c < 3; ++c)
          sum[c] += weight * static_cast<float>(in[c]);
        in += 3;
      }
      for (int c = 0; c < 3; ++c) out[3 * x + c] = sum[c];
    }
  }
  std::vector<float> sum(row_size);
  for (size_t y = 0; y < height; ++y) {
    std::fill(sum.begin(), sum.end(), 0.5f);
    const float* in = narrow.data() + (rows[y].first - first_row) * row_size;
    for (const float weight : rows[y].weights) {
      for (size_t i = 0; i < row_size; ++i) sum[i] += weight * in[i];
      in += row_size;
    }
    uint8_t* out = pixels + y * row_size;
    for (size_t i = 0; i < row_size; ++i) {
      out[i] = static_cast<uint8_t>(std::clamp(sum[i], 0.0f, 255.0f));
    }
  }
}

}  // namespace oarlock::data
