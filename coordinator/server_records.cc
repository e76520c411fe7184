#include "coordinator/server_records.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "coordinator/recorded_time.h"

namespace oarlock::coordinator {

ServerRecords::ServerRecords(uint32_t num_servers, absl::Duration lease)
    : lease_(lease), servers_(num_servers) {}

absl::Status ServerRecords::RecordHeartbeat(
    const v1::ServerHeartbeatRequest& request, absl::Time now) {
  if (request.server_index() >= servers_.size() ||
      request.server_generation() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "heartbeat of server ", request.server_index(), " generation ",
        request.server_generation(), ", but the job has ", servers_.size(),
        " servers, numbered from 0, with generations from 1; give all servers "
        "the same list"));
  }
  Record& server = servers_[request.server_index()];
  if (request.server_generation() < server.generation) {
    return absl::AbortedError(absl::StrCat(
        "server ", request.server_index(), " generation ",
        request.server_generation(), " was replaced by generation ",
        server.generation, "; stop this process"));
  }
  if (request.server_generation() > server.generation) {
    if (server.generation != 0) {
      Log().warn("server {} was restarted: generation {} after {}",
                 request.server_index(), request.server_generation(),
                 server.generation);
    }
    server = Record{};
    server.generation = request.server_generation();
  }
  server.last_heard = now;
  server.workers_version = request.workers_version();
  server.left = request.leaving();
  server.evicted_time = request.evicted_time();
  return absl::OkStatus();
}

void ServerRecords::RecordKnowsItIsOver(ServerIndex server) {
  servers_[server.value()].knows_it_is_over = true;
}

uint32_t ServerRecords::EvictedTime() const {
  uint32_t time = std::numeric_limits<uint32_t>::max();
  for (const Record& server : servers_) {
    if (!server.left) time = std::min(time, server.evicted_time);
  }
  return time;
}

void ServerRecords::Extend(absl::Duration gap) {
  for (Record& server : servers_) server.last_heard += gap;
}

uint32_t ServerRecords::NumAlive(absl::Time now) const {
  return std::count_if(servers_.begin(), servers_.end(),
                       [&](const Record& s) { return Alive(s, now); });
}

std::vector<uint64_t> ServerRecords::generations() const {
  std::vector<uint64_t> generations;
  for (const Record& server : servers_) {
    generations.push_back(server.generation);
  }
  return generations;
}

uint64_t ServerRecords::KnownWorkersVersion(uint64_t newest,
                                            absl::Time now) const {
  uint64_t version = newest;
  for (const Record& server : servers_) {
    if (server.generation != 0 && !Alive(server, now)) continue;
    version = std::min(version, server.workers_version);
  }
  return version;
}

bool ServerRecords::OthersKnowItIsOver(ServerIndex self, absl::Time now) const {
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    if (i != self.value() && Alive(servers_[i], now) &&
        !servers_[i].knows_it_is_over) {
      return false;
    }
  }
  return true;
}

void ServerRecords::Save(
    google::protobuf::RepeatedPtrField<v1::ServerRecordState>* state) const {
  for (const Record& server : servers_) {
    v1::ServerRecordState* saved = state->Add();
    saved->set_server_generation(server.generation);
    saved->set_last_heard_unix_ns(ToRecorded(server.last_heard));
    saved->set_workers_version(server.workers_version);
    saved->set_knows_it_is_over(server.knows_it_is_over);
    saved->set_left(server.left);
    saved->set_evicted_time(server.evicted_time);
  }
}

void ServerRecords::Load(
    const google::protobuf::RepeatedPtrField<v1::ServerRecordState>& state) {
  OARLOCK_CHECK(state.size() == static_cast<int>(servers_.size()));
  for (size_t i = 0; i < servers_.size(); ++i) {
    const v1::ServerRecordState& saved = state[static_cast<int>(i)];
    servers_[i] = {.generation = saved.server_generation(),
                   .last_heard = FromRecorded(saved.last_heard_unix_ns()),
                   .workers_version = saved.workers_version(),
                   .knows_it_is_over = saved.knows_it_is_over(),
                   .left = saved.left(),
                   .evicted_time = saved.evicted_time()};
  }
}

bool ServerRecords::Alive(const Record& server, absl::Time now) const {
  return server.generation != 0 && !server.left &&
         now - server.last_heard <= lease_;
}

}  // namespace oarlock::coordinator
