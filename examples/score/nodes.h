// What each kind of node of an exported model computes.

#ifndef OARLOCK_EXAMPLES_SCORE_NODES_H_
#define OARLOCK_EXAMPLES_SCORE_NODES_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "examples/score/lines.h"
#include "examples/score/table.h"

namespace oarlock::score {

struct Parameter {
  std::vector<size_t> shape;
  const float* values = nullptr;
};

// Slots that look into a table.
struct SparseInput {
  const Table* table = nullptr;
  std::vector<size_t> slots;
};

// [examples, size], flat.
using Values = std::vector<float>;

// What a node computes from.
struct NodeArgs {
  const std::vector<Example>& examples;
  const std::vector<SparseInput>& sparse_inputs;
  // Of the nodes that are its inputs.
  std::vector<const Values*> inputs;
  const std::vector<std::vector<size_t>>& input_shapes;
  std::vector<const Parameter*> parameters;
  const std::map<std::string, size_t>& numbers;
  const std::map<std::string, std::string>& words;

  size_t num_examples() const { return examples.size(); }
  // Floats of an example of an input.
  size_t InputSize(size_t input) const {
    size_t size = 1;
    for (const size_t extent : input_shapes[input]) size *= extent;
    return size;
  }
  size_t number(const char* name) const { return numbers.at(name); }
};

// Fills `output`, which is zeros: [examples, size].
using NodeFunction = void (*)(const NodeArgs& args, size_t size,
                              Values* output);

// Null: this reader does not know the kind.
NodeFunction FindNodeFunction(const std::string& kind);
// The same among those in which features meet each other.
NodeFunction FindInteraction(const std::string& kind);

}  // namespace oarlock::score

#endif  // OARLOCK_EXAMPLES_SCORE_NODES_H_
