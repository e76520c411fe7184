// Certificates for tests of TLS, made on the spot.

#ifndef OARLOCK_TESTS_CLUSTER_TEST_CERTIFICATES_H_
#define OARLOCK_TESTS_CLUSTER_TEST_CERTIFICATES_H_

#include <string>

#include "cluster/security.h"

namespace oarlock::cluster {

// Writes cert.pem, key.pem and ca.pem (a self-signed authority of its own) and
// a token file to the existing folder `dir`, and returns options that name
// them. The certificate is for localhost and 127.0.0.1, for servers and
// clients alike.
SecurityOptions WriteTestCertificates(const std::string& dir);

}  // namespace oarlock::cluster

#endif  // OARLOCK_TESTS_CLUSTER_TEST_CERTIFICATES_H_
