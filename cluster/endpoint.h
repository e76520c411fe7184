// Endpoints as users write them, with errors that name where they were
// written.

#ifndef OARLOCK_CLUSTER_ENDPOINT_H_
#define OARLOCK_CLUSTER_ENDPOINT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace oarlock::cluster {

// Text with the name of where it was found: a variable or a flag.
struct Setting {
  std::string name;
  std::string text;
  // Given as an argument.
  bool is_argument = false;
};

// InvalidArgument: `TRAINING_ROLE is "x"; it must be <legal>, for example
// TRAINING_ROLE=<example>`.
absl::Status WrongSetting(const Setting& setting, absl::string_view legal,
                          absl::string_view example);

// A whole number in [min, max].
absl::StatusOr<int> ParseCount(const Setting& setting, int min, int max);
// 1 to 65535.
absl::StatusOr<int> ParsePort(const Setting& setting);

// "host:port" in its parts; the host as NormalHost has it. InvalidArgument:
// what is wrong with it, without saying where it came from.
struct Endpoint {
  std::string host;
  int port;
};
absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text);

// A host as it stands in endpoints: an IPv6 address in its shortest spelling,
// in brackets; all else as it is. So hosts that are equal have equal text.
std::string NormalHost(const std::string& host);
// The same of "host:port"; text that is no endpoint as it is.
std::string NormalEndpoint(const std::string& text);

// Whether `host` is a name, an IPv4 address or an IPv6 address in brackets.
bool IsHost(const std::string& host);
// What stands before the last colon.
std::string HostOf(const std::string& endpoint);
// The parts of a comma-separated list, trimmed; empty parts are kept.
std::vector<std::string> SplitList(const std::string& text);

// A list of endpoints, and the setting that it is from.
struct EndpointList {
  Setting source;
  std::vector<std::string> endpoints;
  // The ports are made up: only hosts can be compared.
  bool compare_hosts_only = false;
};

// "ip:port,ip:port", each at most once and at most `max_count` of them.
absl::StatusOr<EndpointList> ParseEndpointList(const Setting& setting,
                                               size_t max_count);
// Hosts of one setting with one port for all of them, or one for each.
absl::StatusOr<EndpointList> JoinHostsAndPorts(const Setting& hosts,
                                               const Setting& ports,
                                               size_t max_count);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_ENDPOINT_H_
