#include "cluster/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace oarlock::cluster {
namespace {

absl::Status CheckDistinct(const Setting& setting,
                           const std::vector<std::string>& endpoints,
                           absl::string_view remedy) {
  std::set<std::string> seen;
  for (const std::string& endpoint : endpoints) {
    if (!seen.insert(endpoint).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(setting.name, " is \"", setting.text, "\", which names ",
                       endpoint, " twice; ", remedy));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WrongSetting(const Setting& setting, absl::string_view legal,
                          absl::string_view example) {
  return absl::InvalidArgumentError(
      absl::StrCat(setting.name, " is \"", setting.text, "\"; it must be ",
                   legal, ", for example ", setting.name, "=", example));
}

absl::StatusOr<int> ParseCount(const Setting& setting, int min, int max) {
  int64_t value;
  if (!absl::SimpleAtoi(setting.text, &value) || value < min || value > max) {
    return WrongSetting(setting,
                        absl::StrCat("a whole number from ", min, " to ", max),
                        absl::StrCat(std::max(min, std::min(max, 2))));
  }
  return static_cast<int>(value);
}

absl::StatusOr<int> ParsePort(const Setting& setting) {
  int64_t value;
  if (!absl::SimpleAtoi(setting.text, &value) || value < 1 || value > 65535) {
    return WrongSetting(setting, "a port from 1 to 65535", "6170");
  }
  return static_cast<int>(value);
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    parts.emplace_back(absl::StripAsciiWhitespace(part));
  }
  return parts;
}

std::string HostOf(const std::string& endpoint) {
  return endpoint.substr(0, endpoint.rfind(':'));
}

std::string NormalHost(const std::string& host) {
  std::string bare = host;
  if (bare.size() > 2 && bare.front() == '[' && bare.back() == ']') {
    bare = bare.substr(1, bare.size() - 2);
  }
  in6_addr address;
  if (inet_pton(AF_INET6, bare.c_str(), &address) != 1) return host;
  char text[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &address, text, sizeof(text));
  return absl::StrCat("[", text, "]");
}

std::string NormalEndpoint(const std::string& text) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
  return endpoint.ok() ? absl::StrCat(endpoint->host, ":", endpoint->port)
                       : text;
}

bool IsHost(const std::string& host) {
  if (host.empty()) return false;
  if (host.front() == '[') {
    return host.size() > 2 && host.back() == ']' &&
           host.find_first_not_of("0123456789abcdefABCDEF:.%", 1) ==
               host.size() - 1;
  }
  return std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  if (colon == std::string::npos || !IsHost(host)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is no endpoint; it must be host:port",
        absl::StrContains(host, ':') ? ", IPv6 as [address]:port" : ""));
  }
  int64_t port;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the port of \"", text, "\" must be a number from 1 to 65535"));
  }
  return Endpoint{NormalHost(host), static_cast<int>(port)};
}

absl::StatusOr<EndpointList> ParseEndpointList(const Setting& setting,
                                               size_t max_count) {
  EndpointList list{setting, {}};
  for (const std::string& text : SplitList(setting.text)) {
    absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(setting.name, " is \"", setting.text,
                       "\": ", endpoint.status().message(), ", for example ",
                       setting.name, "=127.0.0.1:6170,127.0.0.1:6171"));
    }
    list.endpoints.push_back(absl::StrCat(endpoint->host, ":", endpoint->port));
  }
  if (list.endpoints.size() > max_count) {
    return absl::InvalidArgumentError(
        absl::StrCat(setting.name, " names ", list.endpoints.size(),
                     " endpoints; at most ", max_count, " are possible"));
  }
  OARLOCK_RETURN_IF_ERROR(CheckDistinct(setting, list.endpoints,
                                        "each process needs an endpoint of "
                                        "its own"));
  return list;
}

absl::StatusOr<EndpointList> JoinHostsAndPorts(const Setting& hosts,
                                               const Setting& ports,
                                               size_t max_count) {
  EndpointList list{hosts, {}};
  std::vector<std::string> host_parts = SplitList(hosts.text);
  for (std::string& host : host_parts) host = NormalHost(host);
  const std::vector<std::string> port_parts = SplitList(ports.text);
  if (port_parts.size() != 1 && port_parts.size() != host_parts.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        ports.name, " is \"", ports.text, "\", ", port_parts.size(),
        " ports, but ", hosts.name, " is \"", hosts.text, "\", ",
        host_parts.size(), " addresses; give one port for all, or one each"));
  }
  for (size_t i = 0; i < host_parts.size(); ++i) {
    if (!IsHost(host_parts[i])) {
      return WrongSetting(hosts, "addresses without ports, comma-separated",
                          "127.0.0.2,127.0.0.3");
    }
    const std::string& port_text = port_parts[port_parts.size() == 1 ? 0 : i];
    OARLOCK_ASSIGN_OR_RETURN(const int port,
                             ParsePort({ports.name, port_text}));
    list.endpoints.push_back(absl::StrCat(host_parts[i], ":", port));
  }
  if (list.endpoints.size() > max_count) {
    return absl::InvalidArgumentError(
        absl::StrCat(hosts.name, " names ", list.endpoints.size(),
                     " addresses; at most ", max_count, " are possible"));
  }
  OARLOCK_RETURN_IF_ERROR(CheckDistinct(
      hosts, list.endpoints,
      "with one port for all, each process needs an address of its own; "
      "servers on one address need PADDLE_PSERVERS_IP_PORT_LIST"));
  return list;
}

}  // namespace oarlock::cluster
