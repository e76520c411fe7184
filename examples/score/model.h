// An exported model: its network, interpreted node by node.

#ifndef OARLOCK_EXAMPLES_SCORE_MODEL_H_
#define OARLOCK_EXAMPLES_SCORE_MODEL_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "examples/score/lines.h"
#include "examples/score/model_files.h"
#include "examples/score/nodes.h"
#include "examples/score/table.h"

namespace oarlock::score {

struct Node {
  NodeFunction function = nullptr;
  std::vector<size_t> inputs;
  // As it looks at them.
  std::vector<std::vector<size_t>> input_shapes;
  std::vector<size_t> shape;
  std::vector<size_t> parameters;
  // Its options, by name.
  std::map<std::string, size_t> numbers;
  std::map<std::string, std::string> words;

  // Floats of an example.
  size_t size() const;
};

// Immutable; thread-safe.
class Model {
 public:
  // Null, and `error` says why, when the folder is damaged, or of a format or
  // with a node that this reader does not know.
  static std::unique_ptr<Model> Load(const std::string& folder,
                                     std::string* error);

  const InputSpec& input() const { return input_; }
  // The probability of label 1 of each example.
  std::vector<float> Score(const std::vector<Example>& examples) const;

 private:
  Model() = default;
  // Throws what nlohmann::json throws.
  bool Read(const std::string& folder, std::string* error);

  ModelFiles files_;
  InputSpec input_;
  std::vector<Table> tables_;
  std::vector<SparseInput> sparse_inputs_;
  std::vector<Parameter> parameters_;
  std::vector<Node> nodes_;
  size_t output_ = 0;
};

}  // namespace oarlock::score

#endif  // OARLOCK_EXAMPLES_SCORE_MODEL_H_
