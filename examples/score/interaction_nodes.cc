// Nodes in which features meet each other.

#include <algorithm>
#include <cmath>

#include "examples/score/nodes.h"

namespace oarlock::score {
namespace {

float Dot(size_t size, const float* a, const float* b) {
  double sum = 0;
  for (size_t i = 0; i < size; ++i) sum += double{a[i]} * b[i];
  return static_cast<float>(sum);
}

void FieldAwareFm(const NodeArgs& args, size_t size, Values* output) {
  const size_t fields = args.input_shapes[0][0];
  const size_t width = args.input_shapes[0][1] / fields;
  for (size_t e = 0; e < args.num_examples(); ++e) {
    const float* const v = args.inputs[0]->data() + e * fields * fields * width;
    double sum = 0;
    for (size_t i = 0; i < fields; ++i) {
      for (size_t j = i + 1; j < fields; ++j) {
        sum += Dot(width, v + (i * fields + j) * width,
                   v + (j * fields + i) * width);
      }
    }
    (*output)[e] = static_cast<float>(sum);
  }
}

void Cross(const NodeArgs& args, size_t size, Values* output) {
  const bool one = args.InputSize(1) == 1;
  for (size_t i = 0; i < output->size(); ++i) {
    const float z = (*args.inputs[1])[one ? i / size : i];
    (*output)[i] = (*args.inputs[0])[i] * z + (*args.inputs[2])[i];
  }
}

void RowLinear(const NodeArgs& args, size_t size, Values* output) {
  const size_t width = args.input_shapes[0][1];
  const size_t columns = args.parameters[0]->shape[1];
  const bool relu = args.words.at("activation") == "relu";
  for (size_t r = 0; r < output->size() / columns; ++r) {
    const float* const x = args.inputs[0]->data() + r * width;
    float* const y = output->data() + r * columns;
    if (args.parameters.size() > 1) {
      std::copy_n(args.parameters[1]->values, columns, y);
    }
    for (size_t i = 0; i < width; ++i) {
      const float* const row = args.parameters[0]->values + i * columns;
      for (size_t j = 0; j < columns; ++j) y[j] += x[i] * row[j];
    }
    if (!relu) continue;
    for (size_t j = 0; j < columns; ++j) y[j] = std::max(y[j], 0.0f);
  }
}

void Transpose(const NodeArgs& args, size_t size, Values* output) {
  const size_t rows = args.input_shapes[0][0];
  const size_t columns = args.input_shapes[0][1];
  for (size_t e = 0; e < args.num_examples(); ++e) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        (*output)[e * size + c * rows + r] =
            (*args.inputs[0])[e * size + r * columns + c];
      }
    }
  }
}

void SumRows(const NodeArgs& args, size_t size, Values* output) {
  const size_t in = args.InputSize(0);
  for (size_t i = 0; i < args.inputs[0]->size(); ++i) {
    (*output)[i / in * size + i % size] += (*args.inputs[0])[i];
  }
}

void CompressedInteraction(const NodeArgs& args, size_t size, Values* output) {
  const size_t h = args.input_shapes[0][1];
  const size_t m = args.input_shapes[1][1];
  const size_t maps = args.parameters[0]->shape[1];
  // A row for each float of the vectors, of each example.
  for (size_t row = 0; row < output->size() / maps; ++row) {
    float* const y = output->data() + row * maps;
    for (size_t i = 0; i < h; ++i) {
      for (size_t j = 0; j < m; ++j) {
        const float product =
            (*args.inputs[0])[row * h + i] * (*args.inputs[1])[row * m + j];
        const float* const weight =
            args.parameters[0]->values + (i * m + j) * maps;
        for (size_t o = 0; o < maps; ++o) y[o] += product * weight[o];
      }
    }
  }
}

void PairwiseDots(const NodeArgs& args, size_t size, Values* output) {
  const size_t width = args.number("width");
  const size_t in = args.InputSize(0);
  float* y = output->data();
  for (size_t e = 0; e < args.num_examples(); ++e) {
    const float* const v = args.inputs[0]->data() + e * in;
    for (size_t i = 0; i < in; i += width) {
      for (size_t j = 0; j < i; j += width) *y++ = Dot(width, v + i, v + j);
    }
  }
}

// The output of one head for the vector whose query begins at `query`; those of
// the others are `stride` floats apart, the first at `first`.
void AttendTo(const float* query, const float* first, size_t num, size_t stride,
              size_t part, size_t width, float* y) {
  std::vector<double> weights(num);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  for (size_t j = 0; j < num; ++j) {
    weights[j] = scale * Dot(width, query, first + j * stride + part);
  }
  const double top = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - top);
  for (size_t c = 0; c < width; ++c) {
    double out = 0;
    for (size_t j = 0; j < num; ++j) {
      out += weights[j] / sum * first[j * stride + 2 * part + c];
    }
    y[c] = static_cast<float>(out);
  }
}

void SelfAttention(const NodeArgs& args, size_t size, Values* output) {
  const size_t num = args.input_shapes[0][0];
  const size_t stride = args.input_shapes[0][1];
  const size_t part = stride / 3;  // all heads' queries, keys or values
  const size_t heads = args.number("heads");
  const size_t width = part / heads;
  for (size_t e = 0; e < args.num_examples(); ++e) {
    const float* const x = args.inputs[0]->data() + e * num * stride;
    for (size_t i = 0; i < num; ++i) {
      for (size_t head = 0; head < heads; ++head) {
        AttendTo(x + i * stride + head * width, x + head * width, num, stride,
                 part, width,
                 output->data() + e * size + i * part + head * width);
      }
    }
  }
}

void ScaledVectors(const NodeArgs& args, size_t size, Values* output) {
  const size_t in = args.InputSize(0);
  const size_t width = size / in;
  for (size_t i = 0; i < output->size(); ++i) {
    (*output)[i] =
        (*args.inputs[0])[i / width] * args.parameters[0]->values[i % size];
  }
}

}  // namespace

NodeFunction FindInteraction(const std::string& kind) {
  static constexpr struct {
    const char* kind;
    NodeFunction function;
  } kFunctions[] = {
      {"field_aware_fm", FieldAwareFm},
      {"cross", Cross},
      {"row_linear", RowLinear},
      {"transpose", Transpose},
      {"sum_rows", SumRows},
      {"compressed_interaction", CompressedInteraction},
      {"pairwise_dots", PairwiseDots},
      {"self_attention", SelfAttention},
      {"scaled_vectors", ScaledVectors},
  };
  for (const auto& known : kFunctions) {
    if (kind == known.kind) return known.function;
  }
  return nullptr;
}

}  // namespace oarlock::score
