#include "pserver/table/table_change.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/message_differencer.h>

#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace oarlock::pserver {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// Keeps the rule, but none of its numbers.
void KeepRuleAlone(v1::OptimizerConfig* optimizer) {
  v1::OptimizerConfig bare;
  const Reflection& reflection = *optimizer->GetReflection();
  const FieldDescriptor* const rule = reflection.GetOneofFieldDescriptor(
      *optimizer, optimizer->GetDescriptor()->FindOneofByName("rule"));
  if (rule != nullptr) bare.GetReflection()->MutableMessage(&bare, rule);
  *optimizer = bare;
}

v1::TableConfig ShapeOf(v1::TableConfig config) {
  config.clear_mode();
  config.clear_reduction();
  KeepRuleAlone(config.mutable_optimizer());
  if (config.has_sparse()) {
    config.mutable_sparse()->clear_eviction();
    if (config.sparse().has_extended_optimizer()) {
      KeepRuleAlone(config.mutable_sparse()->mutable_extended_optimizer());
    }
  }
  if (config.has_dense()) {
    config.mutable_dense()->clear_quorum();
    config.mutable_dense()->clear_pushes_per_worker();
    config.mutable_dense()->clear_staleness_power();
  }
  return config;
}

}  // namespace

bool CanGoOn(const v1::TableConfig& from, const v1::TableConfig& to) {
  return google::protobuf::util::MessageDifferencer::Equals(ShapeOf(from),
                                                            ShapeOf(to));
}

std::string DifferencesOf(const v1::TableConfig& from,
                          const v1::TableConfig& to) {
  google::protobuf::util::MessageDifferencer differencer;
  std::string report;
  differencer.ReportDifferencesToString(&report);
  differencer.Compare(from, to);
  // One difference per line.
  std::vector<std::string> differences =
      absl::StrSplit(report, '\n', absl::SkipEmpty());
  for (std::string& difference : differences) {
    difference = std::string(absl::StripPrefix(difference, "modified: "));
  }
  return absl::StrJoin(differences, ", ");
}

}  // namespace oarlock::pserver
