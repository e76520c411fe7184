#include "examples/score/nodes.h"

#include <algorithm>
#include <cmath>

namespace oarlock::score {
namespace {

void DenseInput(const NodeArgs& args, size_t size, Values* output) {
  float* out = output->data();
  for (const Example& example : args.examples) {
    out = std::copy(example.dense.begin(), example.dense.end(), out);
  }
}

void Embedding(const NodeArgs& args, size_t size, Values* output) {
  const SparseInput& input = args.sparse_inputs[args.number("sparse_input")];
  const size_t begin = args.number("column_begin");
  const size_t width = args.number("width");
  const bool mean = args.words.at("pooling") == "mean";
  std::vector<float> sum(input.table->dim);
  float* out = output->data();
  for (const Example& example : args.examples) {
    for (const size_t slot : input.slots) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      const size_t num_keys = example.keys[slot].size();
      for (size_t k = 0; k < num_keys; ++k) {
        const float weight =
            example.weights.empty() ? 1 : example.weights[slot][k];
        input.table->AddRow(example.keys[slot][k], weight, sum.data());
      }
      if (mean && num_keys > 1) {
        for (float& x : sum) x /= static_cast<float>(num_keys);
      }
      out = std::copy_n(sum.data() + begin, width, out);
    }
  }
}

void PairsInSlots(const NodeArgs& args, size_t size, Values* output) {
  const SparseInput& input = args.sparse_inputs[args.number("sparse_input")];
  const size_t begin = args.number("column_begin");
  const size_t width = args.number("width");
  const bool mean = args.words.at("pooling") == "mean";
  std::vector<float> row(input.table->dim);
  std::vector<double> sums(width);
  for (size_t e = 0; e < args.num_examples(); ++e) {
    const Example& example = args.examples[e];
    double total = 0;
    for (const size_t slot : input.slots) {
      std::fill(sums.begin(), sums.end(), 0.0);
      double squares = 0;
      const size_t num_keys = example.keys[slot].size();
      for (size_t k = 0; k < num_keys; ++k) {
        float weight = example.weights.empty() ? 1 : example.weights[slot][k];
        if (mean) weight /= static_cast<float>(num_keys);
        std::fill(row.begin(), row.end(), 0.0f);
        input.table->AddRow(example.keys[slot][k], weight, row.data());
        for (size_t c = 0; c < width; ++c) {
          const double x = row[begin + c];
          sums[c] += x;
          squares += x * x;
        }
      }
      for (const double sum : sums) total += sum * sum;
      total -= squares;
    }
    (*output)[e] = static_cast<float>(total / 2);
  }
}

void Concat(const NodeArgs& args, size_t size, Values* output) {
  float* out = output->data();
  for (size_t e = 0; e < args.num_examples(); ++e) {
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const size_t part = args.InputSize(i);
      out = std::copy_n(args.inputs[i]->data() + e * part, part, out);
    }
  }
}

void Linear(const NodeArgs& args, size_t size, Values* output) {
  const size_t num_inputs = args.InputSize(0);
  const float* const weight = args.parameters[0]->values;
  const bool relu = args.words.at("activation") == "relu";
  for (size_t e = 0; e < args.num_examples(); ++e) {
    const float* const x = args.inputs[0]->data() + e * num_inputs;
    float* const y = output->data() + e * size;
    if (args.parameters.size() > 1) {
      std::copy_n(args.parameters[1]->values, size, y);
    }
    for (size_t i = 0; i < num_inputs; ++i) {
      const float* const row = weight + i * size;
      for (size_t j = 0; j < size; ++j) y[j] += x[i] * row[j];
    }
    if (!relu) continue;
    for (size_t j = 0; j < size; ++j) y[j] = std::max(y[j], 0.0f);
  }
}

void Bias(const NodeArgs& args, size_t size, Values* output) {
  for (size_t i = 0; i < output->size(); ++i) {
    (*output)[i] = (*args.inputs[0])[i] + args.parameters[0]->values[i % size];
  }
}

// (x - mean) / deviation, two parameters from `first` on.
void Standardize(const NodeArgs& args, size_t first, size_t size,
                 Values* output) {
  const float* const mean = args.parameters[first]->values;
  const float* const deviation = args.parameters[first + 1]->values;
  for (size_t i = 0; i < output->size(); ++i) {
    (*output)[i] =
        ((*args.inputs[0])[i] - mean[i % size]) / deviation[i % size];
  }
}

void DataNorm(const NodeArgs& args, size_t size, Values* output) {
  Standardize(args, /*first=*/0, size, output);
}

void BatchNorm(const NodeArgs& args, size_t size, Values* output) {
  Standardize(args, /*first=*/2, size, output);
  const float* const scale = args.parameters[0]->values;
  const float* const shift = args.parameters[1]->values;
  const bool relu = args.words.at("activation") == "relu";
  for (size_t i = 0; i < output->size(); ++i) {
    float& y = (*output)[i];
    y = y * scale[i % size] + shift[i % size];
    if (relu) y = std::max(y, 0.0f);
  }
}

void Identity(const NodeArgs& args, size_t size, Values* output) {
  *output = *args.inputs[0];
}

void Relu(const NodeArgs& args, size_t size, Values* output) {
  for (size_t i = 0; i < output->size(); ++i) {
    (*output)[i] = std::max((*args.inputs[0])[i], 0.0f);
  }
}

void Add(const NodeArgs& args, size_t size, Values* output) {
  for (const Values* const input : args.inputs) {
    for (size_t i = 0; i < output->size(); ++i) (*output)[i] += (*input)[i];
  }
}

void SumColumns(const NodeArgs& args, size_t size, Values* output) {
  const size_t columns = args.InputSize(0);
  for (size_t i = 0; i < args.inputs[0]->size(); ++i) {
    (*output)[i / columns] += (*args.inputs[0])[i];
  }
}

void FmSecondOrder(const NodeArgs& args, size_t size, Values* output) {
  const size_t vectors = args.input_shapes[0][0];
  const size_t width = args.input_shapes[0][1];
  for (size_t e = 0; e < args.num_examples(); ++e) {
    const float* const x = args.inputs[0]->data() + e * vectors * width;
    double total = 0;
    for (size_t c = 0; c < width; ++c) {
      double sum = 0;
      double squares = 0;
      for (size_t v = 0; v < vectors; ++v) {
        const double value = x[v * width + c];
        sum += value;
        squares += value * value;
      }
      total += sum * sum - squares;
    }
    (*output)[e] = static_cast<float>(total / 2);
  }
}

void Softmax(const NodeArgs& args, size_t size, Values* output) {
  for (size_t e = 0; e < args.num_examples(); ++e) {
    const float* const x = args.inputs[0]->data() + e * size;
    float* const y = output->data() + e * size;
    const double top = *std::max_element(x, x + size);
    double sum = 0;
    for (size_t i = 0; i < size; ++i) sum += std::exp(x[i] - top);
    for (size_t i = 0; i < size; ++i) {
      y[i] = static_cast<float>(std::exp(x[i] - top) / sum);
    }
  }
}

void Sigmoid(const NodeArgs& args, size_t size, Values* output) {
  for (size_t i = 0; i < output->size(); ++i) {
    const double x = (*args.inputs[0])[i];
    (*output)[i] = static_cast<float>(1 / (1 + std::exp(-x)));
  }
}

}  // namespace

NodeFunction FindNodeFunction(const std::string& kind) {
  static constexpr struct {
    const char* kind;
    NodeFunction function;
  } kFunctions[] = {
      {"dense_input", DenseInput},
      {"embedding", Embedding},
      {"pairs_in_slots", PairsInSlots},
      {"concat", Concat},
      {"linear", Linear},
      {"bias", Bias},
      {"batch_norm", BatchNorm},
      {"data_norm", DataNorm},
      {"view", Identity},
      {"dropout", Identity},
      {"relu", Relu},
      {"add", Add},
      {"sum_columns", SumColumns},
      {"fm_second_order", FmSecondOrder},
      {"softmax_cross_entropy", Softmax},
      {"sigmoid_cross_entropy", Sigmoid},
  };
  for (const auto& known : kFunctions) {
    if (kind == known.kind) return known.function;
  }
  return FindInteraction(kind);
}

}  // namespace oarlock::score
