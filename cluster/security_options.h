// What flags and the environment say about credentials (cluster/security.h).

#ifndef OARLOCK_CLUSTER_SECURITY_OPTIONS_H_
#define OARLOCK_CLUSTER_SECURITY_OPTIONS_H_

#include <string>

namespace oarlock::cluster {

struct SecurityOptions {
  // Serve beyond loopback without TLS and token.
  bool insecure = false;
  // PEM files; all three or none.
  std::string tls_cert_file;
  std::string tls_key_file;
  std::string tls_ca_file;
  // File whose trimmed content is the token.
  std::string token_file;
};

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_SECURITY_OPTIONS_H_
