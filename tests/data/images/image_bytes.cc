#include "tests/data/images/image_bytes.h"

#include <png.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

// clang-format off: it needs size_t and FILE.
#include <jpeglib.h>
// clang-format on

#include "base/check.h"

namespace oarlock::data {
namespace {

std::string EncodeJpeg(uint32_t height, uint32_t width, uint32_t channels,
                       J_COLOR_SPACE space, const std::vector<uint8_t>& pixels,
                       int quality) {
  OARLOCK_CHECK(pixels.size() == size_t{height} * width * channels);
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &out, &size);
  jpeg.image_height = height;
  jpeg.image_width = width;
  jpeg.input_components = static_cast<int>(channels);
  jpeg.in_color_space = space;
  jpeg_set_defaults(&jpeg);
  // Colours as fine as brightness, so that what comes back is close.
  for (int c = 0; c < jpeg.num_components; ++c) {
    jpeg.comp_info[c].h_samp_factor = 1;
    jpeg.comp_info[c].v_samp_factor = 1;
  }
  jpeg_set_quality(&jpeg, quality, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < height) {
    JSAMPROW row = const_cast<uint8_t*>(
        pixels.data() + size_t{jpeg.next_scanline} * width * channels);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string bytes(reinterpret_cast<char*>(out), size);
  free(out);
  return bytes;
}

}  // namespace

std::string BigEndian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

std::string IdxFile(uint32_t magic, const std::vector<uint32_t>& sizes,
                    const std::string& items) {
  std::string bytes = BigEndian(magic);
  for (const uint32_t size : sizes) bytes += BigEndian(size);
  return bytes + items;
}

std::string JpegFile(uint32_t height, uint32_t width, uint32_t channels,
                     const std::vector<uint8_t>& pixels, int quality) {
  return EncodeJpeg(height, width, channels,
                    channels == 1 ? JCS_GRAYSCALE : JCS_RGB, pixels, quality);
}

std::string CmykJpegFile(uint32_t height, uint32_t width,
                         const std::vector<uint8_t>& cmyk) {
  return EncodeJpeg(height, width, 4, JCS_CMYK, cmyk, 95);
}

std::string PngFile(uint32_t height, uint32_t width, uint32_t channels,
                    const std::vector<uint8_t>& pixels) {
  OARLOCK_CHECK(pixels.size() == size_t{height} * width * channels);
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.height = height;
  png.width = width;
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  OARLOCK_CHECK(png_image_write_to_memory(&png, nullptr, &size, 0,
                                          pixels.data(), 0, nullptr) != 0);
  std::string bytes(size, '\0');
  OARLOCK_CHECK(png_image_write_to_memory(&png, bytes.data(), &size, 0,
                                          pixels.data(), 0, nullptr) != 0);
  bytes.resize(size);
  return bytes;
}

}  // namespace oarlock::data
