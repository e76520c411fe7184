#include "data/images/image_decoder.h"

#include <png.h>
#include <setjmp.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>

// clang-format off: they need size_t and FILE, and each the one before it.
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

absl::Status Damaged(const std::string& name, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("'", name, "': ", what,
                   "; legal is a whole JPEG or PNG image; replace the file or "
                   "take it out of its folder"));
}

absl::Status CheckExtent(const std::string& name, const ImageExtent& extent) {
  const auto [height, width] = extent;
  if (height >= 1 && height <= ImageExtent::kMaxSide && width >= 1 &&
      width <= ImageExtent::kMaxSide &&
      uint64_t{height} * width <= ImageExtent::kMaxPixels) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "'%s': it is %d x %d pixels; legal are sides of 1 to %d and up to %d "
      "pixels; make it smaller",
      name, height, width, ImageExtent::kMaxSide, ImageExtent::kMaxPixels));
}

bool IsJpeg(absl::string_view bytes) {
  return absl::StartsWith(bytes, "\xff\xd8");
}
bool IsPng(absl::string_view bytes) {
  return absl::StartsWith(bytes, "\x89PNG\r\n\x1a\n");
}

// libjpeg reports errors through function pointers and leaves by longjmp. So
// functions that call it have no local objects with destructors.
struct JpegErrors {
  jpeg_error_mgr
      manager;  // first member: so a pointer to it points to JpegErrors
  jmp_buf leave;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void LeaveJpeg(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  errors->manager.format_message(jpeg, errors->message);
  longjmp(errors->leave, 1);
}

// Warnings are about harmless bytes, except when the end is missing: the
// library would fill the missing part with gray.
void OnJpegMessage(j_common_ptr jpeg, int level) {
  const int code = jpeg->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) {
    LeaveJpeg(jpeg);
  }
}

void PrepareJpeg(jpeg_decompress_struct* jpeg, JpegErrors* errors) {
  jpeg->err = jpeg_std_error(&errors->manager);
  errors->manager.error_exit = LeaveJpeg;
  errors->manager.emit_message = OnJpegMessage;
}

// Returns false on an error; errors->message says why.
bool ReadJpegExtent(absl::string_view bytes, JpegErrors* errors,
                    ImageExtent* extent) {
  jpeg_decompress_struct jpeg = {};
  PrepareJpeg(&jpeg, errors);
  if (setjmp(errors->leave) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()),
               bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  *extent = {.height = jpeg.image_height, .width = jpeg.image_width};
  jpeg_destroy_decompress(&jpeg);
  return true;
}

// CMYK to RGB in place: the first three of every four bytes become colours,
// packed. Adobe writes CMYK inverted, and other programs do not write CMYK.
void PackCmyk(uint8_t* row, uint32_t width) {
  for (uint32_t x = 0; x < width; ++x) {
    const uint8_t* cmyk = row + 4 * x;
    const uint32_t black = cmyk[3];
    const uint8_t rgb[3] = {static_cast<uint8_t>(cmyk[0] * black / 255),
                            static_cast<uint8_t>(cmyk[1] * black / 255),
                            static_cast<uint8_t>(cmyk[2] * black / 255)};
    for (int c = 0; c < 3; ++c) row[3 * x + c] = rgb[c];
  }
}

// Decodes a file whose extent has been checked. The caller owns `image` and
// `row`, so longjmp leaks no memory.
bool ReadJpeg(absl::string_view bytes, uint32_t shrink, JpegErrors* errors,
              RgbImage* image, std::vector<uint8_t>* row) {
  jpeg_decompress_struct jpeg = {};
  PrepareJpeg(&jpeg, errors);
  if (setjmp(errors->leave) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()),
               bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  const bool is_cmyk =
      jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg.scale_num = 1;
  jpeg.scale_denom = shrink;
  jpeg_start_decompress(&jpeg);
  image->height = jpeg.output_height;
  image->width = jpeg.output_width;
  image->pixels.resize(size_t{3} * image->height * image->width);
  row->resize(size_t{4} * image->width);
  while (jpeg.output_scanline < jpeg.output_height) {
    uint8_t* const pixels =
        image->pixels.data() + size_t{3} * image->width * jpeg.output_scanline;
    JSAMPROW target = is_cmyk ? row->data() : pixels;
    jpeg_read_scanlines(&jpeg, &target, 1);
    if (is_cmyk) {
      PackCmyk(row->data(), image->width);
      std::copy_n(row->data(), size_t{3} * image->width, pixels);
    }
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return true;
}

// Decodes a PNG. libpng's simplified interface catches its own errors.
class PngReader {
 public:
  PngReader(const std::string& name, absl::string_view bytes) : name_(name) {
    png_.version = PNG_IMAGE_VERSION;
    png_image_begin_read_from_memory(&png_, bytes.data(), bytes.size());
  }
  ~PngReader() { png_image_free(&png_); }

  absl::StatusOr<ImageExtent> Extent() const {
    if (PNG_IMAGE_FAILED(png_)) return Damaged(name_, png_.message);
    return ImageExtent{.height = png_.height, .width = png_.width};
  }

  absl::StatusOr<RgbImage> Read() {
    RgbImage image = {.height = png_.height, .width = png_.width, .pixels = {}};
    image.pixels.resize(size_t{3} * image.height * image.width);
    png_.format = PNG_FORMAT_RGB;
    const png_color black = {0, 0, 0};
    png_image_finish_read(&png_, &black, image.pixels.data(),
                          /*row_stride=*/0, /*colormap=*/nullptr);
    if (PNG_IMAGE_FAILED(png_)) return Damaged(name_, png_.message);
    return image;
  }

 private:
  const std::string& name_;
  png_image png_ = {};
};

absl::Status NeitherFormat(const std::string& name) {
  return Damaged(name, "its first bytes are neither those of a JPEG nor a PNG");
}

}  // namespace

absl::StatusOr<ImageExtent> ReadImageExtent(const std::string& name,
                                            absl::string_view bytes) {
  ImageExtent extent;
  if (IsJpeg(bytes)) {
    JpegErrors errors;
    if (!ReadJpegExtent(bytes, &errors, &extent)) {
      return Damaged(name, errors.message);
    }
  } else if (IsPng(bytes)) {
    OARLOCK_ASSIGN_OR_RETURN(extent, PngReader(name, bytes).Extent());
  } else {
    return NeitherFormat(name);
  }
  OARLOCK_RETURN_IF_ERROR(CheckExtent(name, extent));
  return extent;
}

absl::StatusOr<RgbImage> DecodeImage(const std::string& name,
                                     absl::string_view bytes, uint32_t shrink) {
  OARLOCK_CHECK(shrink == 1 || shrink == 2 || shrink == 4 || shrink == 8);
  // Checks the size in the header before memory is allocated for it.
  OARLOCK_RETURN_IF_ERROR(ReadImageExtent(name, bytes).status());
  if (IsPng(bytes)) return PngReader(name, bytes).Read();
  JpegErrors errors;
  RgbImage image;
  std::vector<uint8_t> row;
  if (!ReadJpeg(bytes, shrink, &errors, &image, &row)) {
    return Damaged(name, errors.message);
  }
  return image;
}

}  // namespace oarlock::data
