// Image files made in memory.

#ifndef OARLOCK_TESTS_DATA_IMAGES_IMAGE_BYTES_H_
#define OARLOCK_TESTS_DATA_IMAGES_IMAGE_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace oarlock::data {

// Big-endian, as in the header of an idx file.
std::string BigEndian(uint32_t number);
// An idx file with this magic, these sizes and these items.
std::string IdxFile(uint32_t magic, const std::vector<uint32_t>& sizes,
                    const std::string& items);
inline std::string IdxImageFile(uint32_t count, uint32_t height, uint32_t width,
                                const std::string& pixels) {
  return IdxFile(0x803, {count, height, width}, pixels);
}
inline std::string IdxLabelFile(const std::string& labels) {
  return IdxFile(0x801, {static_cast<uint32_t>(labels.size())}, labels);
}

// pixels [height, width, channels], 1 or 3 channels, encoded by libjpeg and
// libpng.
std::string JpegFile(uint32_t height, uint32_t width, uint32_t channels,
                     const std::vector<uint8_t>& pixels, int quality = 95);
std::string PngFile(uint32_t height, uint32_t width, uint32_t channels,
                    const std::vector<uint8_t>& pixels);

// A JPEG of CMYK as Adobe writes it: cmyk [height, width, 4], inverted.
std::string CmykJpegFile(uint32_t height, uint32_t width,
                         const std::vector<uint8_t>& cmyk);

}  // namespace oarlock::data

#endif  // OARLOCK_TESTS_DATA_IMAGES_IMAGE_BYTES_H_
