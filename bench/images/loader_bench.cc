// What a second of one core makes of images: examples read and augmented,
// without a thread of the loader's own. Time is the process's CPU time, so that
// others on the machine matter less. Beside each shape in memory stands the
// limit: as many bytes copied from one batch to another.

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "data/images/image_folder.h"
#include "data/images/image_loader.h"
#include "data/images/synthetic_images.h"
#include "tests/data/images/image_bytes.h"

namespace oarlock {
namespace {

constexpr double kSeconds = 1;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

// Examples a second.
double RateOf(const data::ImageDataset& images,
              const data::Augmentation& augmentation, uint32_t batch_size) {
  const data::ImageTransform transform =
      OrExit(data::ImageTransform::Create(images.shape(), augmentation, 1));
  const data::DistributedBatchSampler sampler = OrExit(
      data::DistributedBatchSampler::Create({.num_examples = images.size(),
                                             .batch_size = batch_size,
                                             .shuffle = true}));
  const double begin = CpuSeconds();
  double num_examples = 0;
  for (uint64_t epoch = 0; CpuSeconds() - begin < kSeconds; ++epoch) {
    data::ImageLoader loader(&images, &transform, sampler.Epoch(epoch),
                             {.num_workers = 0});
    while (const data::ImageBatch* batch = OrExit(loader.Next())) {
      num_examples += static_cast<double>(batch->num_examples);
    }
  }
  return num_examples / (CpuSeconds() - begin);
}

double CopyRateOf(const data::ImageShape& shape, uint32_t batch_size) {
  std::vector<uint8_t> from(shape.size() * batch_size, 1), to(from.size());
  const double begin = CpuSeconds();
  double num_examples = 0;
  while (CpuSeconds() - begin < kSeconds) {
    for (int i = 0; i < 100; ++i) {
      from[0] += to[1];
      std::memcpy(to.data(), from.data(), from.size());
      num_examples += batch_size;
    }
  }
  return num_examples / (CpuSeconds() - begin);
}

void RunInMemory(const char* name, const data::ImageShape& shape,
                 uint32_t batch_size) {
  const auto images =
      OrExit(data::NewSyntheticImages({.shape = shape, .num_examples = 4096}));
  const double plain = RateOf(*images, {}, batch_size);
  const double augmented =
      RateOf(*images, {.padding = 4, .flip = true}, batch_size);
  const double copied = CopyRateOf(shape, batch_size);
  std::printf(
      "%s: %.0f images/s (%.2f of copying), with padding and flip %.0f "
      "(%.2f)\n",
      name, plain, plain / copied, augmented, augmented / copied);
}

void RunFolder() {
  const std::string folder =
      std::filesystem::temp_directory_path() / "oarlock_loader_bench";
  std::filesystem::create_directories(folder + "/class");
  std::vector<uint8_t> pixels(375 * 500 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>(128 + (i / 1500 * 7 + i % 1500 * 3) % 90);
  }
  for (int i = 0; i < 32; ++i) {
    std::ofstream(folder + "/class/" + std::to_string(i) + ".jpg",
                  std::ios::binary)
        << data::JpegFile(375, 500, 3, pixels, 90);
  }
  const auto images = OrExit(data::ImageFolder::Open(folder, {.side = 224}));
  std::printf(
      "JPEG 500 x 375 to 224 x 224: the middle %.0f images/s, a random "
      "area %.0f\n",
      RateOf(*images, {}, 32),
      RateOf(*images, {.flip = true, .random_area = true}, 32));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace oarlock

int main() {
  oarlock::RunInMemory("MNIST, batch 64", {28, 28, 1}, 64);
  oarlock::RunInMemory("CIFAR, batch 32", {32, 32, 3}, 32);
  oarlock::RunInMemory("224 x 224, batch 32", {224, 224, 3}, 32);
  oarlock::RunFolder();
}
