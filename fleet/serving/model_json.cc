#include "fleet/serving/model_json.h"

#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "nn/network.h"

namespace oarlock {
namespace {

using nlohmann::ordered_json;

// JSON's numbers are doubles in many languages.
std::string Digits(uint64_t number) { return absl::StrCat(number); }

ordered_json InputJson(const data::DataOptions& data) {
  const data::DataSchema schema = data::SchemaOf(data);
  ordered_json json;
  json["format"] = std::string(data::NameOf(data.format));
  if (data.format == data::DataOptions::Format::kCriteo) {
    json["dense_transform"] = std::string(data::NameOf(data.dense_transform));
  }
  json["num_dense"] = schema.num_dense;
  json["num_slots"] = schema.num_slots;
  json["feature_dim"] = Digits(data.sparse_feature_dim);
  return json;
}

ordered_json InitialJson(const v1::TableConfig& table) {
  const v1::Initializer& initializer = table.sparse().initializer();
  ordered_json json;
  switch (initializer.kind_case()) {
    case v1::Initializer::kUniformRange:
      json["kind"] = "uniform";
      json["value"] = initializer.uniform_range();
      break;
    case v1::Initializer::kNormalStddev:
      json["kind"] = "normal";
      json["value"] = initializer.normal_stddev();
      break;
    case v1::Initializer::kConstant:
    case v1::Initializer::KIND_NOT_SET:
      json["kind"] = "constant";
      json["value"] = initializer.constant();
      break;
  }
  json["stream"] = Digits(DeriveSeed(table.seed(), table.id()));
  return json;
}

absl::StatusOr<ordered_json> TableJson(const ExportedTable& table) {
  const v1::TableConfig& config = table.config;
  if (config.sparse().extended_dim() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("table '", config.name(), "' has an extended part of ",
                     config.sparse().extended_dim(),
                     " floats, which exported models do not have yet"));
  }
  ordered_json json;
  json["name"] = config.name();
  json["dim"] = config.sparse().dim();
  json["rows"] = table.num_rows;
  json["keys"] = table.keys_file;
  json["values"] = table.values_file;
  json["initial"] = InitialJson(config);
  return json;
}

// `parameters`: which of the model's it reads.
absl::StatusOr<ordered_json> NodeJson(const nn::Network::Node& node,
                                      const std::vector<size_t>& parameters) {
  const std::optional<std::vector<nn::LayerOption>> options =
      node.layer->is_view() ? std::vector<nn::LayerOption>{}
                            : node.layer->ExportedOptions();
  if (!options.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("node '", node.name, "' is a ", node.layer->kind(),
                     ", a layer that exported models do not have yet"));
  }
  ordered_json json;
  json["name"] = node.name;
  // Whoever reads a view reads what it shows.
  json["kind"] = node.layer->is_view() ? "view" : node.layer->kind();
  json["inputs"] = node.inputs;
  json["input_shapes"] = ordered_json::array();
  for (const nn::Shape& shape : node.input_shapes) {
    json["input_shapes"].push_back(shape.dims());
  }
  json["shape"] = node.shape.dims();
  json["parameters"] = parameters;
  json["options"] = ordered_json::object();
  for (const nn::LayerOption& option : *options) {
    std::visit([&](const auto& value) { json["options"][option.name] = value; },
               option.value);
  }
  return json;
}

}  // namespace

absl::StatusOr<ordered_json> ModelJson(const ExportedModel& exported) {
  const models::ModelSpec& spec = exported.model->spec();
  const nn::Network* const network = exported.model->network();
  if (network == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the model ", spec.name, " is of a kind that cannot be exported yet"));
  }
  ordered_json json;
  json["format"] = "oarlock.model";
  json["format_version"] = kExportFormatVersion;
  json["model"] = spec.name;
  json["job_id"] = exported.job_id;
  json["cut"] = exported.cut;
  json["input"] = InputJson(exported.data);
  json["tables"] = ordered_json::array();
  json["sparse_inputs"] = ordered_json::array();
  for (size_t i = 0; i < exported.tables.size(); ++i) {
    OARLOCK_ASSIGN_OR_RETURN(ordered_json table, TableJson(exported.tables[i]));
    json["tables"].push_back(std::move(table));
    json["sparse_inputs"].push_back(
        {{"table", i}, {"slots", spec.sparse_inputs[i].slots}});
  }
  json["parameters"] = ordered_json::array();
  for (const nn::ParameterSpec& parameter : exported.parameters.specs) {
    json["parameters"].push_back({{"name", parameter.name},
                                  {"shape", parameter.shape},
                                  {"offset", parameter.offset}});
  }
  json["nodes"] = ordered_json::array();
  for (size_t i = 0; i < network->nodes().size(); ++i) {
    OARLOCK_ASSIGN_OR_RETURN(
        ordered_json described,
        NodeJson(network->nodes()[i], exported.parameters.of_node[i]));
    json["nodes"].push_back(std::move(described));
  }
  json["output"] = network->prediction();
  return json;
}

}  // namespace oarlock
