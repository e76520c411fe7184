#include "tests/cluster/test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "base/check.h"

namespace oarlock::cluster {
namespace {

using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

PrivateKey NewKey() {
  PrivateKey key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  OARLOCK_CHECK(key != nullptr);
  return key;
}

void AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  OARLOCK_CHECK(extension != nullptr);
  OARLOCK_CHECK(X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

// A certificate of `key` under the name `name`; `issuer` null: self-signed.
Certificate NewCertificate(const char* name, int serial, EVP_PKEY* key,
                           X509* issuer, EVP_PKEY* issuer_key) {
  constexpr long kDaySeconds = 24 * 60 * 60;
  Certificate certificate(X509_new(), X509_free);
  X509* x = certificate.get();
  X509_set_version(x, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x), serial);
  X509_gmtime_adj(X509_getm_notBefore(x), -kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(x), kDaySeconds);
  X509_set_pubkey(x, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1,
                             -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x));
  if (issuer == nullptr) {
    AddExtension(x, x, NID_basic_constraints, "critical,CA:TRUE");
  } else {
    AddExtension(x, issuer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  }
  OARLOCK_CHECK(X509_sign(x, issuer ? issuer_key : key, EVP_sha256()) > 0);
  return certificate;
}

// Opens `path`, lets `write` fill it, closes it.
template <typename Write>
void WriteFile(const std::string& path, Write write) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  OARLOCK_CHECK(file != nullptr);
  OARLOCK_CHECK(write(file) == 1);
  OARLOCK_CHECK(std::fclose(file) == 0);
}

}  // namespace

SecurityOptions WriteTestCertificates(const std::string& dir) {
  SecurityOptions options;
  options.tls_cert_file = dir + "/cert.pem";
  options.tls_key_file = dir + "/key.pem";
  options.tls_ca_file = dir + "/ca.pem";
  options.token_file = dir + "/token";

  const PrivateKey ca_key = NewKey();
  const Certificate ca =
      NewCertificate("test authority", 1, ca_key.get(), nullptr, nullptr);
  const PrivateKey key = NewKey();
  const Certificate certificate =
      NewCertificate("localhost", 2, key.get(), ca.get(), ca_key.get());

  WriteFile(options.tls_ca_file,
            [&](std::FILE* file) { return PEM_write_X509(file, ca.get()); });
  WriteFile(options.tls_cert_file, [&](std::FILE* file) {
    return PEM_write_X509(file, certificate.get());
  });
  WriteFile(options.tls_key_file, [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr,
                                nullptr);
  });
  std::ofstream(options.token_file) << "  test-token-0123456789\n";
  return options;
}

}  // namespace oarlock::cluster
