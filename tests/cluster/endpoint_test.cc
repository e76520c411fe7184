#include "cluster/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace oarlock::cluster {
namespace {

using ::testing::HasSubstr;

TEST(EndpointTest, HostsAndPortsAreChecked) {
  for (const char* good : {"127.0.0.1:1", "host-1.example_x:65535", "[::1]:80",
                           "[fe80::1%25]:80"}) {
    EXPECT_TRUE(ParseEndpoint(good).ok()) << good;
  }
  for (const char* bad :
       {"", ":", ":1", "a", "a:", "a:0", "a:65536", "a:-1", "a:x", "::1:80",
        "[]:1", "[::1:80", "a b:1", "http://a:1", "[::1]"}) {
    EXPECT_FALSE(ParseEndpoint(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseEndpoint("[::1]:80")->host, "[::1]");
  EXPECT_EQ(ParseEndpoint("[::1]:80")->port, 80);
  // Every spelling of an address is one address.
  for (const char* spelling :
       {"[fd00::1]:80", "[FD00:0:0::1]:80",
        "[fd00:0000:0000:0000:0000:0000:0000:0001]:80"}) {
    EXPECT_EQ(ParseEndpoint(spelling)->host, "[fd00::1]") << spelling;
    EXPECT_EQ(NormalEndpoint(spelling), "[fd00::1]:80") << spelling;
  }
  for (const char* host : {"fd00::1", "[fd00::1]", "FD00:0::1"}) {
    EXPECT_EQ(NormalHost(host), "[fd00::1]") << host;
  }
  for (const char* host : {"10.0.0.1", "a-host", "[", "[]", "", "fd00::x"}) {
    EXPECT_EQ(NormalHost(host), host);
  }
  EXPECT_EQ(NormalEndpoint("no endpoint"), "no endpoint");
  EXPECT_THAT(std::string(ParseEndpoint("::1:80").status().message()),
              HasSubstr("IPv6 as [address]:port"));
}

}  // namespace
}  // namespace oarlock::cluster
