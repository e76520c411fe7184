#include "collective/sockets.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cluster/endpoint.h"

namespace oarlock::collective {
namespace {

const std::string kSecret(kSecretBytes, 's');

class RingAcceptorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto acceptor = RingAcceptor::Open("127.0.0.1", clock_);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }
  absl::StatusOr<Socket> Connect(const Handshake& handshake) {
    return ConnectTo(clock_, acceptor_->address(), handshake, never_.fd(),
                     Soon());
  }
  absl::StatusOr<Socket> Await(uint32_t communicator, uint32_t from_rank) {
    return acceptor_->Await(communicator, from_rank, never_.fd(), Soon());
  }
  absl::Time Soon() const { return clock_.Now() + absl::Seconds(10); }

  FakeClock clock_;
  const Socket never_{eventfd(0, EFD_CLOEXEC)};
  std::unique_ptr<RingAcceptor> acceptor_;
};

TEST_F(RingAcceptorTest, ConnectionsAreGivenOutByWhatTheirHandshakeSays) {
  // Before the acceptor is started, too.
  auto first = Connect({kSecret, 1, 4});
  acceptor_->Start(kSecret);
  auto second = Connect({kSecret, 0, 3});
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_EQ(send(first->fd(), "1", 1, 0), 1);
  ASSERT_EQ(send(second->fd(), "2", 1, 0), 1);
  auto of_second = Await(0, 3);
  auto of_first = Await(1, 4);
  ASSERT_TRUE(of_first.ok() && of_second.ok());
  char got = 0;
  ASSERT_TRUE(
      AwaitSocket(clock_, of_first->fd(), POLLIN, never_.fd(), Soon()).ok());
  ASSERT_EQ(recv(of_first->fd(), &got, 1, 0), 1);
  EXPECT_EQ(got, '1');
}

TEST_F(RingAcceptorTest, StrangersAreDroppedAndTheOthersLetIn) {
  acceptor_->Start(kSecret);
  auto stranger = Connect({std::string(kSecretBytes, 'x'), 0, 3});
  ASSERT_TRUE(stranger.ok());
  // Dropped: the stream ends.
  ASSERT_TRUE(
      AwaitSocket(clock_, stranger->fd(), POLLIN, never_.fd(), Soon()).ok());
  char byte;
  EXPECT_EQ(recv(stranger->fd(), &byte, 1, 0), 0);
  auto friendly = Connect({kSecret, 0, 3});
  ASSERT_TRUE(friendly.ok());
  EXPECT_TRUE(Await(0, 3).ok());
}

// The clock stands still, so none of the silent ones is dropped for its time.
TEST_F(RingAcceptorTest, SilentConnectionsKeepNobodyOut) {
  acceptor_->Start(kSecret);
  const auto endpoint = cluster::ParseEndpoint(acceptor_->address());
  ASSERT_TRUE(endpoint.ok());
  std::vector<Socket> silent;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(endpoint->port));
    ASSERT_EQ(
        connect(silent.back().fd(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)),
        0);
  }
  auto friendly = Connect({kSecret, 0, 3});
  ASSERT_TRUE(friendly.ok());
  EXPECT_TRUE(Await(0, 3).ok());
}

TEST_F(RingAcceptorTest, WaitingEndsWithTimeOrTheGroup) {
  acceptor_->Start(kSecret);
  std::thread waiter([this] {
    EXPECT_EQ(Await(0, 1).status().code(), absl::StatusCode::kDeadlineExceeded);
  });
  EXPECT_TRUE(clock_.AwaitWaiters(1));
  clock_.Advance(absl::Seconds(11));
  waiter.join();
  const Socket woken(eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(acceptor_->Await(0, 1, woken.fd(), Soon()).status().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(RingAcceptorTest, AConnectionThatIsRefusedIsAnError) {
  const std::string address = acceptor_->address();
  acceptor_ = nullptr;
  EXPECT_EQ(ConnectTo(clock_, address, {kSecret, 0, 0}, never_.fd(), Soon())
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(RingAcceptorTest, ASocketIsWaitedForNoLongerThanTheClockSays) {
  auto connected = Connect({kSecret, 0, 3});
  ASSERT_TRUE(connected.ok());
  EXPECT_EQ(
      AwaitSocket(clock_, connected->fd(), POLLIN, never_.fd(), clock_.Now())
          .code(),
      absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace oarlock::collective
