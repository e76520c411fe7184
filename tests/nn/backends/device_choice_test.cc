#include "nn/backends/device_choice.h"

#include <gtest/gtest.h>

namespace oarlock::nn {
namespace {

const cuda::Gpus kNone = {0, "no CUDA-capable device is detected"};
const cuda::Gpus kTwo = {2, ""};

TEST(DeviceChoiceTest, CpuComputesWithoutAWord) {
  for (const cuda::Gpus& gpus : {kNone, kTwo}) {
    const auto choice = ChooseDevice("cpu", "float32", 0, "", gpus);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->math_backend, "onednn");
    EXPECT_EQ(choice->log_line, "");
  }
  EXPECT_EQ(ChooseDevice("cpu", "bfloat16", 0, "", kTwo)->math_backend,
            "onednn_bfloat16");
}

TEST(DeviceChoiceTest, AutoFallsBackToTheCpuAndSaysWhy) {
  const auto choice = ChooseDevice("auto", "float32", 0, "", kNone);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->math_backend, "onednn");
  EXPECT_EQ(choice->log_line,
            "computing on the CPU: no GPU: no CUDA-capable device is detected");
}

TEST(DeviceChoiceTest, WorkersOfANodeShareItsGpus) {
  for (const char* device : {"auto", "gpu"}) {
    EXPECT_EQ(ChooseDevice(device, "float32", 0, "", kTwo)->math_backend,
              "cuda:0");
    EXPECT_EQ(ChooseDevice(device, "tf32", 3, "", kTwo)->math_backend,
              "cuda_tf32:1");
    EXPECT_EQ(ChooseDevice(device, "bfloat16", 4, "", kTwo)->math_backend,
              "cuda_bfloat16:0");
  }
  const auto named = ChooseDevice("gpu:1", "float32", 0, "", kTwo);
  EXPECT_EQ(named->math_backend, "cuda:1");
  EXPECT_EQ(named->log_line, "computing on GPU 1 in float32");
}

TEST(DeviceChoiceTest, GpuThatTheLauncherHasForAWorkerIsTaken) {
  for (const char* device : {"auto", "gpu"}) {
    EXPECT_EQ(ChooseDevice(device, "float32", 0, "1", kTwo)->math_backend,
              "cuda:1");
    EXPECT_EQ(ChooseDevice(device, "tf32", 1, "0,1", kTwo)->math_backend,
              "cuda_tf32:0");
  }
  // Whoever gives a number has decided, and so has who wants the CPU.
  for (const char* selected : {"1", "7", "GPU-5a"}) {
    EXPECT_EQ(ChooseDevice("gpu:0", "float32", 0, selected, kTwo)->math_backend,
              "cuda:0");
    EXPECT_EQ(ChooseDevice("cpu", "float32", 0, selected, kTwo)->math_backend,
              "onednn");
  }
  EXPECT_EQ(ChooseDevice("auto", "float32", 0, "1", kNone)->math_backend,
            "onednn");
}

TEST(DeviceChoiceTest, SelectedGpuThatIsNotThereIsToldByTheVariable) {
  for (const char* device : {"auto", "gpu"}) {
    const absl::Status status =
        ChooseDevice(device, "float32", 0, "2,0", kTwo).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("FLAGS_selected_gpus is 2,0, and this "
                                    "machine has 2 GPUs; legal are gpu:0 to "
                                    "gpu:1"),
              std::string::npos)
        << status;
    for (const char* selected : {"x", ",", "-1", " 1", "gpu:1", "99999"}) {
      const absl::Status illegal = CheckDevice(device, "float32", selected);
      EXPECT_EQ(illegal.code(), absl::StatusCode::kInvalidArgument) << selected;
      EXPECT_NE(illegal.message().find("FLAGS_selected_gpus is \""),
                std::string::npos);
      EXPECT_EQ(ChooseDevice(device, "float32", 0, selected, kNone).status(),
                illegal);
    }
  }
}

TEST(DeviceChoiceTest, AGpuThatIsNotThereIsAnErrorInTheDriversWords) {
  for (const char* device : {"gpu", "gpu:0"}) {
    const auto choice = ChooseDevice(device, "float32", 0, "", kNone);
    EXPECT_EQ(choice.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(choice.status().message().find(kNone.why_none),
              std::string::npos);
  }
  const auto third = ChooseDevice("gpu:2", "float32", 0, "", kTwo);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(third.status().message().find("gpu:0 to gpu:1"), std::string::npos);
}

TEST(DeviceChoiceTest, WhatIsNoDeviceIsRefusedWithTheLegalOnes) {
  for (const char* device :
       {"", "gpus", "GPU", "gpu:", "gpu:-1", "gpu:+1", "gpu:x", "gpu:1 ",
        "gpu: 1", "gpu:99999999999", "cuda"}) {
    const absl::Status status = CheckDevice(device, "float32", "");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << device;
    EXPECT_NE(status.message().find("cpu, gpu, gpu:N"), std::string::npos);
  }
}

TEST(DeviceChoiceTest, Tf32IsAGpus) {
  for (const char* device : {"cpu", "auto"}) {
    EXPECT_EQ(ChooseDevice(device, "tf32", 0, "", kNone).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(CheckDevice("cpu", "tf32", "").code(),
            absl::StatusCode::kInvalidArgument);
  // There may be a GPU where it is chosen.
  for (const char* device : {"auto", "gpu", "gpu:1"}) {
    EXPECT_TRUE(CheckDevice(device, "tf32", "").ok()) << device;
  }
}

TEST(DeviceChoiceTest, ThisMachinesGpusAreThoseThatAreFound) {
  const cuda::Gpus gpus = cuda::FindGpus();
  for (const char* device : {"cpu", "auto", "gpu", "gpu:1"}) {
    const auto choice = ChooseDevice(device, "float32", 1, "");
    const auto expected = ChooseDevice(device, "float32", 1, "", gpus);
    EXPECT_EQ(choice.status(), expected.status());
    if (!choice.ok() || !expected.ok()) continue;
    EXPECT_EQ(choice->math_backend, expected->math_backend);
    EXPECT_EQ(choice->log_line, expected->log_line);
  }
}

}  // namespace
}  // namespace oarlock::nn
