// In a process whose oneDNN is told, through its environment, that the CPU has
// no more than AVX2.

#include <gtest/gtest.h>

#include "nn/backends/backends.h"

namespace oarlock::nn {
namespace {

TEST(CpuWithoutBfloat16Test, BackendIsRefusedWithWhatToDo) {
  const auto math = NewMathBackend("onednn_bfloat16");
  ASSERT_EQ(math.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(math.status().message(),
            "products in bfloat16 need a CPU with AVX512_BF16 or AMX, and this "
            "one has neither; legal on it is --dense_math float32: choose "
            "that");
}

TEST(CpuWithoutBfloat16Test, Float32IsThere) {
  EXPECT_TRUE(NewMathBackend("onednn").ok());
}

}  // namespace
}  // namespace oarlock::nn
