#include "cli/ctl/status_json.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace oarlock::cli {
namespace {

using Json = nlohmann::ordered_json;

Json LoadJson(const TableLoad& load) {
  return {{"rows", load.rows},
          {"bytes", load.bytes},
          {"pulled_rows", load.pulled_rows},
          {"pushed_rows", load.pushed_rows}};
}

// What a table with a memory budget adds.
Json TierJson(const TableLoad& load) {
  return {{"memory_rows", load.memory_rows},
          {"cold_rows", load.cold_rows},
          {"demoted_rows", load.demoted_rows},
          {"promoted_rows", load.promoted_rows},
          {"disk_bytes", load.disk_bytes},
          {"disk_memory_bytes", load.disk_memory_bytes}};
}

// `of_partitions`: also name the partition.
Json SkewJson(const Skew& skew, bool of_partitions) {
  Json json = {{"max_over_mean", skew.max_over_mean}, {"server", skew.server}};
  if (of_partitions) json["partition"] = skew.partition;
  return json;
}

Json LoadSkewJson(const LoadSkew& skew, bool of_partitions) {
  return {{"rows", SkewJson(skew.rows, of_partitions)},
          {"pulled_rows", SkewJson(skew.pulled_rows, of_partitions)},
          {"pushed_rows", SkewJson(skew.pushed_rows, of_partitions)}};
}

Json TrafficJson(const v1::KeyTraffic& traffic, uint64_t total) {
  // 0 / 0 is not a number, which becomes null.
  const auto all = static_cast<double>(total);
  return {{"share", traffic.rows() / all},
          {"share_error", traffic.rows_error() / all},
          {"rows", traffic.rows()},
          {"rows_error", traffic.rows_error()}};
}

Json TableJson(const TableView& table) {
  const bool sparse = table.config.has_sparse();
  const uint64_t budget = table.config.sparse().memory_budget_bytes();
  Json json = {
      {"table", table.config.id()},
      {"name", table.config.name()},
      {"kind", sparse ? "sparse" : "dense"},
      {"mode", absl::AsciiStrToLower(v1::UpdateMode_Name(table.config.mode()))},
  };
  if (sparse) {
    json["dim"] = table.config.sparse().dim();
    json["payload_bytes"] = table.payload_bytes;
  } else {
    json["size"] = table.config.dense().size();
  }
  json["row_bytes"] = table.row_bytes;
  json["servers"] = Json::array();
  for (const TableView::Share& share : table.shares) {
    Json of_server = {{"server", share.server}};
    of_server.update(LoadJson(share.load));
    if (budget != 0) of_server.update(TierJson(share.load));
    of_server["version"] = share.version;
    json["servers"].push_back(std::move(of_server));
  }
  json["total"] = LoadJson(table.total);
  if (budget != 0) {
    json["memory_budget_bytes"] = budget;
    json["total"].update(TierJson(table.total));
  }
  if (sparse) {
    json["admitted_rows"] = table.total.admitted_rows;
    json["rejected_keys"] = table.total.rejected_keys;
    json["evicted_rows"] = table.total.evicted_rows;
  }
  json["skew_across_servers"] =
      LoadSkewJson(table.across_servers, /*of_partitions=*/false);
  if (sparse) {
    json["skew_across_partitions"] =
        LoadSkewJson(table.across_partitions, /*of_partitions=*/true);
  }
  return json;
}

}  // namespace

Json JobStatusJson(const v1::JobStatusResponse& status) {
  Json json = {{"job_id", status.job_id()},
               {"finished", status.finished()},
               {"failed", status.failed()},
               {"draining", status.draining()},
               {"reason", status.reason()},
               {"uptime_seconds", status.uptime_seconds()},
               {"num_servers", status.num_servers()},
               {"num_servers_alive", status.num_servers_alive()},
               {"num_workers", status.num_workers()},
               {"workers", Json::array()},
               {"phases", Json::array()}};
  for (const v1::WorkerState& worker : status.workers()) {
    json["workers"].push_back(
        {{"worker_index", worker.worker_index()},
         {"worker_generation", worker.worker_generation()},
         {"life",
          absl::AsciiStrToLower(v1::WorkerState::Life_Name(worker.life()))},
         {"host", worker.host()},
         {"pid", worker.pid()},
         {"reason", worker.reason()}});
  }
  for (const v1::PhaseStatus& phase : status.phases()) {
    json["phases"].push_back({{"phase", phase.progress().phase()},
                              {"epoch", phase.progress().epoch()},
                              {"examples", phase.progress().examples()},
                              {"num_examples", phase.num_examples()},
                              {"steps", phase.progress().steps()},
                              {"bad_lines", phase.progress().bad_lines()},
                              {"seconds", phase.seconds()},
                              {"logloss", phase.logloss()},
                              {"auc", phase.auc()}});
  }
  json["training_stopped"] = status.training_stopped();
  json["stop_reason"] = status.stop_reason();
  json["evaluations"] = Json::array();
  for (const v1::Evaluation& evaluation : status.evaluations()) {
    json["evaluations"].push_back(
        {{"phase_name", evaluation.work()},
         {"file", evaluation.file()},
         {"examples", evaluation.examples()},
         {"auc", evaluation.auc()},
         {"logloss", evaluation.logloss()},
         {"trained_examples", evaluation.trained_examples()},
         {"best", evaluation.best()},
         {"checkpoint", evaluation.checkpoint()}});
  }
  if (status.has_newest_file()) {
    json["newest_file"] = {{"epoch", status.newest_file().epoch()},
                           {"file", status.newest_file().file()},
                           {"trained", status.newest_file().trained()}};
  }
  return json;
}

Json EvictionJson(const std::vector<v1::EvictResponse>& servers) {
  Json json = Json::array();
  for (size_t i = 0; i < servers.size(); ++i) {
    json.push_back({{"server", i},
                    {"examined_rows", servers[i].examined_rows()},
                    {"idle_rows", servers[i].idle_rows()},
                    {"low_score_rows", servers[i].low_score_rows()},
                    {"capacity_rows", servers[i].capacity_rows()},
                    {"rows", servers[i].rows()}});
  }
  return json;
}

Json ServersJson(const std::vector<v1::ServerStatusResponse>& servers) {
  Json json = Json::array();
  for (const v1::ServerStatusResponse& server : servers) {
    json.push_back({{"server", server.server_index()},
                    {"endpoint", EndpointOf(server)},
                    {"server_generation", server.server_generation()},
                    {"uptime_seconds", server.uptime_seconds()},
                    {"held_pushes", server.held_pushes()}});
  }
  return json;
}

Json SilentJson(const std::vector<SilentServer>& silent) {
  Json json = Json::array();
  for (const SilentServer& server : silent) {
    json.push_back({{"server", server.server},
                    {"endpoint", server.endpoint},
                    {"why", server.why}});
  }
  return json;
}

Json TablesJson(const std::vector<TableView>& tables) {
  Json json = Json::array();
  for (const TableView& table : tables) json.push_back(TableJson(table));
  return json;
}

Json HotKeysJson(const std::vector<HotKeysView>& tables) {
  Json json = Json::array();
  for (const HotKeysView& table : tables) {
    Json keys = Json::array();
    for (const HotKeyView& key : table.keys) {
      keys.push_back({{"key", absl::StrCat(key.key)},
                      {"partition", key.partition},
                      {"server", key.server},
                      {"pulls", TrafficJson(key.pulls, table.pulled_rows)},
                      {"pushes", TrafficJson(key.pushes, table.pushed_rows)}});
    }
    json.push_back({{"table", table.table},
                    {"name", table.name},
                    {"pulled_rows", table.pulled_rows},
                    {"pushed_rows", table.pushed_rows},
                    {"pull_samples", table.pull_samples},
                    {"push_samples", table.push_samples},
                    {"keys", std::move(keys)}});
  }
  return json;
}

}  // namespace oarlock::cli
