#include "nn/cuda/call_list.h"

#include <cstring>
#include <limits>

namespace oarlock::nn::cuda {
namespace {

constexpr uint16_t kProduct = std::numeric_limits<uint16_t>::max();
constexpr size_t kAlignment = alignof(std::max_align_t);

}  // namespace

void CallList::AddKernel(KernelId id, const void* kernel, size_t num_bytes,
                         size_t blocks) {
  Add(static_cast<uint16_t>(id), kernel, num_bytes, blocks);
}

void CallList::AddProduct(Product product) {
  __builtin_clear_padding(&product);
  Add(kProduct, &product, sizeof(product), 1);
}

void CallList::Add(uint16_t kind, const void* arguments, size_t num_bytes,
                   size_t blocks) {
  const size_t begin = BlocksFor(arguments_.size(), kAlignment) * kAlignment;
  arguments_.resize(begin + num_bytes);
  std::memcpy(arguments_.data() + begin, arguments, num_bytes);
  kinds_.push_back(kind);
  calls_.push_back({blocks, begin, num_bytes});
}

void CallList::Clear() {
  kinds_.clear();
  calls_.clear();
  arguments_.clear();
}

void CallList::Do(size_t begin, size_t end, Device& device) const {
  for (size_t i = begin; i < end; ++i) {
    const Call& call = calls_[i];
    const void* const arguments = arguments_.data() + call.begin;
    if (kinds_[i] == kProduct) {
      device.Multiply(*static_cast<const Product*>(arguments));
    } else {
      device.Launch(static_cast<KernelId>(kinds_[i]), arguments, call.num_bytes,
                    call.blocks);
    }
  }
}

CallList CallList::Part(size_t begin, size_t end) const {
  CallList part;
  for (size_t i = begin; i < end; ++i) {
    const Call& call = calls_[i];
    part.Add(kinds_[i], arguments_.data() + call.begin, call.num_bytes,
             call.blocks);
  }
  return part;
}

bool CallList::Equal(size_t i, const CallList& other, size_t j) const {
  const Call& a = calls_[i];
  const Call& b = other.calls_[j];
  return kinds_[i] == other.kinds_[j] && a.blocks == b.blocks &&
         a.num_bytes == b.num_bytes &&
         std::memcmp(arguments_.data() + a.begin,
                     other.arguments_.data() + b.begin, a.num_bytes) == 0;
}

bool CallList::IsAt(size_t begin, const CallList& other) const {
  for (size_t i = 0; i < size(); ++i) {
    if (!Equal(i, other, begin + i)) return false;
  }
  return true;
}

}  // namespace oarlock::nn::cuda
