// The limit of pulls and pushes over the wire: two processes, one TCP
// connection over loopback, plain blocking sockets, the bytes of a batch and
// nothing else. A request carries row numbers where a real one carries keys,
// and the other process gathers those rows, or applies adagrad to them, at the
// speed of memory. Nothing overlaps: the request is read, the rows are
// gathered, the response is written.
//
// With Zipf's keys the client removes duplicates first (a table of stamps),
// expands the response to all occurrences, and sums the gradients of equal
// rows.
//
// Figures: the median round trip, and the CPU time of both processes per
// batch: what many such clients and servers at once could reach on all cores.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/common/raw_rows.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"

namespace oarlock_bench {
namespace {

constexpr size_t kBatches = 150;
// Of one repetition.
constexpr size_t kCalls = 150;
constexpr size_t kRowBytes = kDim * sizeof(float);
constexpr size_t kBufferBytes =
    kBatchKeys * (kRowBytes + sizeof(uint64_t)) + 4096;

enum class Operation : uint64_t { kPull, kPush, kCpu };

struct Header {
  Operation operation;
  uint64_t num_rows;
};
struct ShortResponse {
  double cpu_seconds;
  char rest[56];
};

void Check(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::_Exit(1);
}

// False when the other side has gone.
bool Read(int socket, void* to, size_t num_bytes) {
  auto* at = static_cast<char*>(to);
  while (num_bytes > 0) {
    const ssize_t got = read(socket, at, num_bytes);
    if (got <= 0) return false;
    at += got;
    num_bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool Write(int socket, const void* from, size_t num_bytes) {
  const auto* at = static_cast<const char*>(from);
  while (num_bytes > 0) {
    const ssize_t put = write(socket, at, num_bytes);
    if (put <= 0) return false;
    at += put;
    num_bytes -= static_cast<size_t>(put);
  }
  return true;
}

// Connects two sockets over loopback.
void Connect(int* client, int* server) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  Check(bind(listener, generic, size) == 0, "bind");
  Check(listen(listener, 1) == 0, "listen");
  Check(getsockname(listener, generic, &size) == 0, "getsockname");
  *client = socket(AF_INET, SOCK_STREAM, 0);
  Check(connect(*client, generic, size) == 0, "connect");
  *server = accept(listener, nullptr, nullptr);
  Check(*server >= 0, "accept");
  close(listener);
  const int on = 1;
  for (const int fd : {*client, *server}) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
}

// The server process: answers until its client has gone.
void Serve(int socket) {
  const RawRows rows(kTableRows);
  auto* const ids = static_cast<uint64_t*>(AllocateHuge(kBufferBytes));
  auto* const values = static_cast<float*>(AllocateHuge(kBufferBytes));
  Header header;
  while (Read(socket, &header, sizeof(header))) {
    const size_t n = header.num_rows;
    if (header.operation == Operation::kPull) {
      if (!Read(socket, ids, n * sizeof(uint64_t))) return;
      rows.Gather(ids, n, values);
      if (!Write(socket, values, n * kRowBytes)) return;
      continue;
    }
    if (header.operation == Operation::kPush) {
      if (!Read(socket, ids, n * sizeof(uint64_t)) ||
          !Read(socket, values, n * kRowBytes)) {
        return;
      }
      rows.Adagrad(ids, n, values);
    }
    const ShortResponse response = {ProcessCpu(), {}};
    if (!Write(socket, &response, sizeof(response))) return;
  }
}

// Distinct rows of a batch and where each occurrence's row is: open
// addressing over stamps, never cleared.
class Deduplicator {
 public:
  void Build(const std::vector<uint64_t>& keys) {
    ++stamp_;
    distinct.clear();
    position.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      size_t entry = (keys[i] * 0x9e3779b97f4a7c15u) >> (64 - kBits);
      while (table_[entry].stamp == stamp_ &&
             distinct[table_[entry].index] != keys[i]) {
        entry = (entry + 1) % table_.size();
      }
      if (table_[entry].stamp != stamp_) {
        table_[entry] = {stamp_, static_cast<uint32_t>(distinct.size())};
        distinct.push_back(keys[i]);
      }
      position[i] = table_[entry].index;
    }
  }

  std::vector<uint64_t> distinct;
  std::vector<uint32_t> position;

 private:
  static constexpr int kBits = 15;
  struct Entry {
    uint32_t stamp = 0;
    uint32_t index = 0;
  };
  uint32_t stamp_ = 0;
  std::vector<Entry> table_ = std::vector<Entry>(size_t{1} << kBits);
};

class Client {
 public:
  explicit Client(int socket)
      : socket_(socket),
        request_(static_cast<char*>(AllocateHuge(kBufferBytes))),
        values_(static_cast<float*>(AllocateHuge(kBufferBytes))),
        expanded_(static_cast<float*>(AllocateHuge(kBufferBytes))),
        gradients_(SomeGradients()) {
    for (const Distribution distribution :
         {Distribution::kUniform, Distribution::kZipf}) {
      for (const auto& rows :
           MakeBatches(distribution, kBatches, kTableRows, 21)) {
        batches_[distribution == Distribution::kZipf].emplace_back(rows.begin(),
                                                                   rows.end());
      }
    }
  }

  // One repetition: `calls` batches, each pulled, pushed or both. Duplicates
  // are removed beforehand from a push alone: a worker pushes what it pulled.
  Figures Run(Distribution distribution, bool pulls, bool pushes) {
    const bool zipf = distribution == Distribution::kZipf;
    std::vector<double> seconds;
    const double cpu = ProcessCpu() + ServerCpu();
    double untimed_cpu = 0;
    for (size_t call = 0; call < kCalls; ++call) {
      const std::vector<uint64_t>& batch = batches_[zipf][next_++ % kBatches];
      if (zipf && !pulls) {
        const double before = ProcessCpu();
        keys_.Build(batch);
        untimed_cpu += ProcessCpu() - before;
      }
      const double start = Now();
      if (zipf && pulls) keys_.Build(batch);
      const std::vector<uint64_t>& sent = zipf ? keys_.distinct : batch;
      if (pulls) Pull(sent, zipf);
      if (pushes) Push(sent, zipf);
      seconds.push_back(Now() - start);
    }
    const double used = ProcessCpu() + ServerCpu() - cpu - untimed_cpu;
    return {{"p50_us", Median(seconds) * 1e6},
            {"cpu_us", used * 1e6 / static_cast<double>(kCalls)}};
  }

 private:
  double ServerCpu() {
    const Header header = {Operation::kCpu, 0};
    ShortResponse response;
    Check(Write(socket_, &header, sizeof(header)), "write");
    Check(Read(socket_, &response, sizeof(response)), "read");
    return response.cpu_seconds;
  }

  // Header and row numbers at the beginning of the request; its size so far.
  size_t BeginRequest(Operation operation, const std::vector<uint64_t>& rows) {
    const Header header = {operation, rows.size()};
    std::memcpy(request_, &header, sizeof(header));
    std::memcpy(request_ + sizeof(header), rows.data(),
                rows.size() * sizeof(uint64_t));
    return sizeof(header) + rows.size() * sizeof(uint64_t);
  }

  void Pull(const std::vector<uint64_t>& rows, bool expand) {
    const size_t size = BeginRequest(Operation::kPull, rows);
    Check(Write(socket_, request_, size), "write");
    Check(Read(socket_, values_, rows.size() * kRowBytes), "read");
    if (!expand) return;
    for (size_t i = 0; i < kBatchKeys; ++i) {
      std::memcpy(expanded_ + i * kDim, values_ + keys_.position[i] * kDim,
                  kRowBytes);
    }
  }

  void Push(const std::vector<uint64_t>& rows, bool merge) {
    const size_t begin = BeginRequest(Operation::kPush, rows);
    auto* const to = reinterpret_cast<float*>(request_ + begin);
    if (merge) {
      std::fill_n(to, rows.size() * kDim, 0.0f);
      for (size_t i = 0; i < kBatchKeys; ++i) {
        float* const sum = to + keys_.position[i] * kDim;
        for (size_t d = 0; d < kDim; ++d) sum[d] += gradients_[i * kDim + d];
      }
      Check(Write(socket_, request_, begin + rows.size() * kRowBytes), "write");
    } else {
      // From where they are, as a client that copies nothing does.
      Check(Write(socket_, request_, begin), "write");
      Check(Write(socket_, gradients_.data(), rows.size() * kRowBytes),
            "write");
    }
    ShortResponse response;
    Check(Read(socket_, &response, sizeof(response)), "read");
  }

  const int socket_;
  char* const request_;
  float* const values_;
  float* const expanded_;
  const std::vector<float> gradients_;
  std::vector<std::vector<uint64_t>> batches_[2];
  Deduplicator keys_;
  size_t next_ = 0;
};

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  int client_socket = -1, server_socket = -1;
  Connect(&client_socket, &server_socket);
  const pid_t server = fork();
  Check(server >= 0, "fork");
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(client_socket);
    Serve(server_socket);
    return 0;
  }
  close(server_socket);
  Client client(client_socket);
  Repetitions repetitions;
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kZipf}) {
    const std::string suffix =
        distribution == Distribution::kZipf ? " zipf" : " uniform";
    repetitions.Add("pull" + suffix, [&, distribution] {
      return client.Run(distribution, true, false);
    });
    repetitions.Add("push" + suffix, [&, distribution] {
      return client.Run(distribution, false, true);
    });
    repetitions.Add("pull+push" + suffix, [&, distribution] {
      return client.Run(distribution, true, true);
    });
  }
  return repetitions.Run(argc, argv);
}
