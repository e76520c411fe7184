#include "examples/score/table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace oarlock::score {
namespace {

uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t Bits(uint64_t stream, uint64_t i) {
  return Mix(stream + i * 0x9e3779b97f4a7c15u);
}

}  // namespace

float Table::InitialValue(uint64_t stream, uint64_t i) const {
  if (initial_kind == "constant") return initial_value;
  if (initial_kind == "uniform") {
    const uint64_t bits = Bits(stream, i / 2);
    const uint32_t half = static_cast<uint32_t>(i % 2 == 0 ? bits : bits >> 32);
    const int32_t centred = static_cast<int32_t>(half >> 8) - (1 << 23);
    return static_cast<float>(centred) * 0x1p-23f * initial_value;
  }
  const uint64_t bits = Bits(stream, i);
  const double a = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
  const double b = static_cast<double>(bits & 0xffffffffu) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(a)) *
                            std::cos(2.0 * std::numbers::pi * b)) *
         initial_value;
}

void Table::AddRow(uint64_t key, float weight, float* sum) const {
  const uint64_t* const found = std::lower_bound(keys, keys + num_rows, key);
  if (found != keys + num_rows && *found == key) {
    const float* const row = values + (found - keys) * dim;
    for (size_t i = 0; i < dim; ++i) sum[i] += weight * row[i];
    return;
  }
  const uint64_t stream = Mix(initial_stream ^ Mix(key + 0x632be59bd9b4e019u));
  for (size_t i = 0; i < dim; ++i) sum[i] += weight * InitialValue(stream, i);
}

}  // namespace oarlock::score
