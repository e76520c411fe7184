#include "examples/score/model.h"

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

namespace oarlock::score {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;

uint64_t Number(const json& digits) {
  return std::strtoull(digits.get<std::string>().c_str(), nullptr, 10);
}

template <typename T>
const T* ArrayOf(const ModelFiles& files, const std::string& name) {
  const auto found = files.find(name);
  return found == files.end()
             ? nullptr
             : reinterpret_cast<const T*>(found->second->data());
}

InputSpec ReadInput(const json& spec) {
  InputSpec input;
  input.format = spec.at("format");
  input.dense_transform = spec.value("dense_transform", "");
  input.num_dense = spec.at("num_dense");
  input.num_slots = spec.at("num_slots");
  input.feature_dim = Number(spec.at("feature_dim"));
  return input;
}

Table ReadTable(const json& spec, const ModelFiles& files) {
  Table table;
  table.dim = spec.at("dim");
  table.num_rows = spec.at("rows");
  table.keys = ArrayOf<uint64_t>(files, spec.at("keys"));
  table.values = ArrayOf<float>(files, spec.at("values"));
  const json& initial = spec.at("initial");
  table.initial_kind = initial.at("kind");
  table.initial_value = initial.at("value");
  table.initial_stream = Number(initial.at("stream"));
  return table;
}

Node ReadNode(const json& spec) {
  Node node;
  node.function = FindNodeFunction(spec.at("kind"));
  node.inputs = spec.at("inputs").get<std::vector<size_t>>();
  for (const json& shape : spec.at("input_shapes")) {
    node.input_shapes.push_back(shape.get<std::vector<size_t>>());
  }
  node.shape = spec.at("shape").get<std::vector<size_t>>();
  node.parameters = spec.at("parameters").get<std::vector<size_t>>();
  for (const auto& [name, value] : spec.at("options").items()) {
    if (value.is_string()) {
      node.words[name] = value;
    } else {
      node.numbers[name] = value;
    }
  }
  return node;
}

}  // namespace

size_t Node::size() const {
  size_t size = 1;
  for (const size_t extent : shape) size *= extent;
  return size;
}

std::unique_ptr<Model> Model::Load(const std::string& folder,
                                   std::string* error) {
  std::unique_ptr<Model> model(new Model);
  try {
    if (model->Read(folder, error)) return model;
  } catch (const json::exception& e) {
    *error = folder + "/model.json: " + e.what();
  }
  return nullptr;
}

bool Model::Read(const std::string& folder, std::string* error) {
  if (!OpenModelFiles(folder, &files_, error)) return false;
  const auto found = files_.find("model.json");
  if (found == files_.end()) {
    *error = folder + " has no model.json";
    return false;
  }
  const MappedFile& text = *found->second;
  const json spec = json::parse(text.data(), text.data() + text.size());
  if (spec.at("format") != "oarlock.model" ||
      spec.at("format_version") != kFormatVersion) {
    *error = folder + " is of another format or version";
    return false;
  }
  input_ = ReadInput(spec.at("input"));
  if (!KnowsFormat(input_.format)) {
    *error = folder + " reads lines of format " + input_.format +
             ", which this reader lacks";
    return false;
  }
  for (const json& table : spec.at("tables")) {
    tables_.push_back(ReadTable(table, files_));
  }
  for (const json& input : spec.at("sparse_inputs")) {
    const size_t table = input.at("table");
    sparse_inputs_.push_back(
        {&tables_.at(table), input.at("slots").get<std::vector<size_t>>()});
  }
  const float* const dense = ArrayOf<float>(files_, "dense.bin");
  for (const json& parameter : spec.at("parameters")) {
    const size_t offset = parameter.at("offset");
    parameters_.push_back(
        {parameter.at("shape").get<std::vector<size_t>>(), dense + offset});
  }
  for (const json& node : spec.at("nodes")) {
    nodes_.push_back(ReadNode(node));
    if (nodes_.back().function != nullptr) continue;
    *error = folder + " has a node " + node.at("name").get<std::string>() +
             " of kind " + node.at("kind").get<std::string>() +
             ", which this reader lacks";
    return false;
  }
  output_ = spec.at("output");
  return true;
}

std::vector<float> Model::Score(const std::vector<Example>& examples) const {
  std::vector<Values> values;
  for (const Node& node : nodes_) {
    NodeArgs args{examples, sparse_inputs_, {},        node.input_shapes,
                  {},       node.numbers,   node.words};
    for (const size_t input : node.inputs) {
      args.inputs.push_back(&values[input]);
    }
    for (const size_t parameter : node.parameters) {
      args.parameters.push_back(&parameters_[parameter]);
    }
    Values output(examples.size() * node.size());
    node.function(args, node.size(), &output);
    values.push_back(std::move(output));
  }
  const size_t size = nodes_[output_].size();
  std::vector<float> scores;
  for (size_t i = 0; i < examples.size(); ++i) {
    scores.push_back(values[output_][(i + 1) * size - 1]);
  }
  return scores;
}

}  // namespace oarlock::score
