#include "cluster/security.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cluster/loopback.h"

namespace oarlock::cluster {
namespace {

// Certificates and tokens are small; anything larger is the wrong file.
constexpr size_t kMaxCredentialFileBytes = 1 << 20;

struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;
};

bool HasTls(const SecurityOptions& options) {
  return !options.tls_cert_file.empty();
}

absl::StatusOr<std::string> ReadFile(absl::string_view flag,
                                     const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content;
  if (file) {
    content.resize(kMaxCredentialFileBytes + 1);
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    content.resize(static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    return absl::NotFoundError(
        absl::StrCat("--", flag, " '", path, "' cannot be read (",
                     std::strerror(errno), "); give a readable file"));
  }
  if (content.size() > kMaxCredentialFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, " '", path, "' is larger than ",
                     kMaxCredentialFileBytes, " bytes; is it the right file?"));
  }
  return content;
}

absl::StatusOr<std::string> ReadPem(absl::string_view flag,
                                    const std::string& path) {
  OARLOCK_ASSIGN_OR_RETURN(std::string content, ReadFile(flag, path));
  if (!absl::StrContains(content, "-----BEGIN ")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, " '", path,
                     "' has no '-----BEGIN' line; it must be a PEM file"));
  }
  return content;
}

absl::Status CheckAllOrNoneOfTls(const SecurityOptions& options) {
  const int given = !options.tls_cert_file.empty() +
                    !options.tls_key_file.empty() +
                    !options.tls_ca_file.empty();
  if (given == 0 || given == 3) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "only ", given, " of the three TLS files given (--tls_cert_file '",
      options.tls_cert_file, "', --tls_key_file '", options.tls_key_file,
      "', --tls_ca_file '", options.tls_ca_file, "'); give all three or none"));
}

// REQUIRES: HasTls(options).
absl::StatusOr<TlsFiles> ReadTlsFiles(const SecurityOptions& options) {
  TlsFiles files;
  OARLOCK_ASSIGN_OR_RETURN(files.cert,
                           ReadPem("tls_cert_file", options.tls_cert_file));
  OARLOCK_ASSIGN_OR_RETURN(files.key,
                           ReadPem("tls_key_file", options.tls_key_file));
  OARLOCK_ASSIGN_OR_RETURN(files.ca,
                           ReadPem("tls_ca_file", options.tls_ca_file));
  return files;
}

}  // namespace

absl::Status CheckServable(const std::string& endpoint,
                           const SecurityOptions& options) {
  OARLOCK_RETURN_IF_ERROR(CheckAllOrNoneOfTls(options));
  if (HasTls(options)) {
    OARLOCK_RETURN_IF_ERROR(ReadTlsFiles(options).status());
  }
  OARLOCK_RETURN_IF_ERROR(ReadToken(options).status());
  if (IsLoopback(endpoint) || options.insecure) return absl::OkStatus();
  if (HasTls(options) && !options.token_file.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "endpoint '", endpoint, "' is beyond loopback and ",
      HasTls(options) ? "no token is given" : "TLS is off",
      "; give --tls_cert_file --tls_key_file --tls_ca_file and --token_file, ",
      "or --insecure (OARLOCK_INSECURE=1) on a network that you trust"));
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const SecurityOptions& options) {
  OARLOCK_RETURN_IF_ERROR(CheckAllOrNoneOfTls(options));
  if (!HasTls(options)) return grpc::InsecureServerCredentials();
  OARLOCK_ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options));
  grpc::SslServerCredentialsOptions ssl(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  ssl.pem_root_certs = std::move(files.ca);
  ssl.pem_key_cert_pairs.push_back(
      {std::move(files.key), std::move(files.cert)});
  return grpc::SslServerCredentials(ssl);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>>
MakeChannelCredentials(const SecurityOptions& options,
                       absl::Span<const std::string> endpoints) {
  OARLOCK_RETURN_IF_ERROR(CheckAllOrNoneOfTls(options));
  if (!HasTls(options)) {
    for (const std::string& endpoint : endpoints) {
      if (options.token_file.empty() || options.insecure ||
          IsLoopback(endpoint)) {
        continue;
      }
      return absl::FailedPreconditionError(absl::StrCat(
          "the token would go to '", endpoint,
          "' in plain text; give --tls_cert_file --tls_key_file "
          "--tls_ca_file, or --insecure (OARLOCK_INSECURE=1) on a network that "
          "you trust"));
    }
    return grpc::InsecureChannelCredentials();
  }
  OARLOCK_ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options));
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = std::move(files.ca);
  ssl.pem_private_key = std::move(files.key);
  ssl.pem_cert_chain = std::move(files.cert);
  return grpc::SslCredentials(ssl);
}

absl::StatusOr<std::string> ReadToken(const SecurityOptions& options) {
  if (options.token_file.empty()) return std::string();
  OARLOCK_ASSIGN_OR_RETURN(std::string content,
                           ReadFile("token_file", options.token_file));
  const std::string token(absl::StripAsciiWhitespace(content));
  if (token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--token_file '", options.token_file,
                     "' is empty; it must hold a token, for example the "
                     "output of 'openssl rand -hex 32'"));
  }
  // What gRPC metadata can carry.
  for (char c : token) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--token_file '", options.token_file,
          "' holds a byte that is not printable ASCII; use one line of "
          "printable characters"));
    }
  }
  return token;
}

bool TokensEqual(const std::string& a, const std::string& b) {
  // Walks all of the longer one whatever is found on the way.
  const size_t size = std::max(a.size(), b.size());
  volatile unsigned difference = a.size() != b.size();
  for (size_t i = 0; i < size; ++i) {
    const unsigned char x = i < a.size() ? a[i] : 0;
    const unsigned char y = i < b.size() ? b[i] : 0;
    difference = difference | static_cast<unsigned>(x ^ y);
  }
  return difference == 0;
}

absl::Status CheckToken(const grpc::ServerContextBase& call,
                        const std::string& token) {
  if (token.empty()) return absl::OkStatus();
  const auto found = call.client_metadata().find(kTokenMetadataKey);
  if (found != call.client_metadata().end() &&
      TokensEqual(std::string(found->second.data(), found->second.size()),
                  token)) {
    return absl::OkStatus();
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "the call carries ",
      found == call.client_metadata().end() ? "no token" : "a wrong token",
      " as metadata '", kTokenMetadataKey,
      "'; give the job's with --token_file"));
}

}  // namespace oarlock::cluster
