// Forwards TCP connections to another port of this host, and now and then
// resets all of them in the middle of what they carry.

#ifndef OARLOCK_TESTS_STRESS_CUTTING_RELAY_H_
#define OARLOCK_TESTS_STRESS_CUTTING_RELAY_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"

namespace oarlock {

struct CuttingRelayOptions {
  // 0: any.
  uint16_t port = 0;
  uint16_t target_port = 0;
  uint64_t seed = 0;
  // Between two cuts, in the mean; infinite: none.
  absl::Duration mean_cut_interval = absl::InfiniteDuration();
};

// On 127.0.0.1. One thread does all, so a connection is never closed while
// another thread uses it. Accessors may be called from any thread.
class CuttingRelay {
 public:
  // Unavailable when the port cannot be had.
  static absl::StatusOr<std::unique_ptr<CuttingRelay>> Start(
      const CuttingRelayOptions& options, const Clock& clock);
  // Closes all connections.
  ~CuttingRelay();

  uint16_t port() const { return port_; }
  // Cuts that met at least one connection, and the connections.
  uint64_t num_cuts() const { return num_cuts_; }
  uint64_t num_connections_cut() const { return num_connections_cut_; }

 private:
  // Side 0 is the client's, side 1 the target's.
  struct Connection {
    int sockets[2] = {-1, -1};
    // To be written to the side.
    std::string pending[2];
    // The side sends no more; the other side has been told.
    bool ended[2] = {false, false};
    bool notified[2] = {false, false};
    bool broken = false;
  };

  CuttingRelay(const CuttingRelayOptions& options, const Clock& clock);
  void Run();
  void Accept();
  // Reads what has come; a cut that is due happens within it.
  void Read(Connection* connection, int side);
  static void Write(Connection* connection, int side);
  void CutAll();
  // Abruptly if it is broken.
  static void Close(Connection* connection);
  void DrawNextCut();

  const CuttingRelayOptions options_;
  const Clock& clock_;
  RandomSequence random_;
  int listener_ = -1;
  int wake_ = -1;
  uint16_t port_ = 0;
  absl::Time next_cut_;
  std::list<Connection> connections_;
  std::atomic<uint64_t> num_cuts_ = 0;
  std::atomic<uint64_t> num_connections_cut_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_CUTTING_RELAY_H_
