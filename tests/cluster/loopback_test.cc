#include "cluster/loopback.h"

#include <gtest/gtest.h>

namespace oarlock::cluster {
namespace {

TEST(IsLoopbackTest, OnlyThisMachineIsLoopback) {
  for (const char* endpoint :
       {"127.0.0.1:80", "127.0.0.2:6174", "127.255.255.254:1", "127.0.0.1",
        "localhost:80", "LOCALHOST", "ip6-localhost:80",
        "localhost.localdomain:80", "[::1]:80", "::1", "[::1]",
        "[::ffff:127.0.0.1]:80", "unix:/tmp/socket", "unix-abstract:name"}) {
    EXPECT_TRUE(IsLoopback(endpoint)) << endpoint;
  }
  for (const char* endpoint :
       {"0.0.0.0:80", "10.0.0.1:80", "128.0.0.1:80", "1.127.0.0:1", "[::]:80",
        "::", "[fe80::1]:80", "example.com:80", "localhost.example.com:80",
        "127.0.0.1.example.com:80", "127.1:80", "", ":80", "*:80",
        "[::ffff:10.0.0.1]:80", "unixhost:80"}) {
    EXPECT_FALSE(IsLoopback(endpoint)) << endpoint;
  }
}

}  // namespace
}  // namespace oarlock::cluster
