// The shape of a tensor that a node of a network computes.

#ifndef OARLOCK_NN_TENSOR_H_
#define OARLOCK_NN_TENSOR_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oarlock::nn {

// The dimensions for one example, outermost first. The batch dimension comes
// before them and is not listed. [26, 10] is 26 rows of 10 floats, [3, 32, 32]
// an image of three planes, [] one number.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<size_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<size_t> dims) : dims_(std::move(dims)) {}

  const std::vector<size_t>& dims() const { return dims_; }
  size_t rank() const { return dims_.size(); }
  size_t operator[](size_t i) const { return dims_[i]; }
  // Number of floats of one example.
  size_t size() const {
    size_t size = 1;
    for (size_t dim : dims_) size *= dim;
    return size;
  }
  std::string ToString() const {
    return absl::StrCat("[", absl::StrJoin(dims_, ", "), "]");
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<size_t> dims_;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_TENSOR_H_
