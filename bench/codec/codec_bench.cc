// What framing costs: one pull of 512 examples x 26 fields (13,312 keys, rows
// of 16 floats) on 256 partitions, and the same through generated code. And
// what 16-bit values cost beside a copy of the floats: bytes_per_second counts
// the floats on their one side.
//
//   bazel run //bench/codec:codec_bench

#include <benchmark/benchmark.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/process/malloc.h"
#include "wire/value_format.h"
#include "wire/wire_codec.h"

namespace oarlock {
namespace {

constexpr size_t kNumKeys = 13312;
constexpr size_t kDim = 16;
constexpr uint32_t kNumGroups = 256;
// HTTP/2 frames cut a message into pieces of this size.
constexpr size_t kFrameBytes = 16384;

struct Pull {
  v1::RequestHeader request_header;
  v1::ResponseHeader response_header;
  std::vector<KeyGroup> groups;
  std::vector<uint64_t> versions;
  grpc::Slice keys;
  grpc::Slice values;

  Pull()
      : versions(kNumGroups, 123456),
        keys(std::string(kNumKeys * 8, 'k')),
        values(std::string(kNumKeys * kDim * 4, 'v')) {
    request_header.set_protocol_version(1);
    request_header.set_job_hash(0x123456789abcdef0);
    request_header.set_routing_generation(1);
    request_header.set_server_generation(2);
    request_header.set_worker_index(3);
    request_header.set_worker_generation(4);
    request_header.set_min_version(5);
    response_header.set_server_generation(2);
    response_header.set_routing_generation(1);
    response_header.set_table_version(123456);
    for (uint32_t i = 0; i < kNumGroups; ++i) {
      groups.push_back({PartitionIndex(i), kNumKeys / kNumGroups});
    }
  }

  grpc::ByteBuffer Request() const {
    return wire::EncodePullSparseRequest(request_header, TableId(1), groups,
                                         v1::FLOAT32, false, keys);
  }
  grpc::ByteBuffer Response() const {
    return wire::EncodePullSparseResponse(response_header, kDim, versions,
                                          values);
  }
};

// As it arrives from a socket.
grpc::ByteBuffer Received(const grpc::ByteBuffer& sent) {
  std::vector<grpc::Slice> slices;
  OARLOCK_CHECK(sent.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  std::vector<grpc::Slice> frames;
  for (size_t at = 0; at < bytes.size(); at += kFrameBytes) {
    frames.emplace_back(bytes.data() + at,
                        std::min(kFrameBytes, bytes.size() - at));
  }
  return grpc::ByteBuffer(frames.data(), frames.size());
}

void EncodeRequest(benchmark::State& state) {
  const Pull pull;
  for (auto _ : state) benchmark::DoNotOptimize(pull.Request());
}
BENCHMARK(EncodeRequest);

void EncodeResponse(benchmark::State& state) {
  const Pull pull;
  for (auto _ : state) benchmark::DoNotOptimize(pull.Response());
}
BENCHMARK(EncodeResponse);

void DecodeRequest(benchmark::State& state) {
  const grpc::ByteBuffer buffer = Received(Pull().Request());
  for (auto _ : state) {
    auto view = wire::DecodePullSparseRequest(buffer);
    OARLOCK_CHECK(view.ok());
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(DecodeRequest);

void DecodeResponse(benchmark::State& state) {
  const grpc::ByteBuffer buffer = Received(Pull().Response());
  for (auto _ : state) {
    auto view = wire::DecodePullSparseResponse(buffer);
    OARLOCK_CHECK(view.ok());
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(DecodeResponse);

// Decoding, and the copy that a consumer who wants one array makes.
void DecodeResponseAndCopy(benchmark::State& state) {
  const grpc::ByteBuffer buffer = Received(Pull().Response());
  std::vector<float> scratch;
  for (auto _ : state) {
    auto view = wire::DecodePullSparseResponse(buffer);
    OARLOCK_CHECK(view.ok());
    benchmark::DoNotOptimize(
        view->values.Elements(0, view->num_values, &scratch));
  }
}
BENCHMARK(DecodeResponseAndCopy);

void GeneratedEncodeResponse(benchmark::State& state) {
  const Pull pull;
  for (auto _ : state) {
    v1::PullSparseResponse message;
    *message.mutable_header() = pull.response_header;
    message.set_dim(kDim);
    message.mutable_group_versions()->Add(pull.versions.begin(),
                                          pull.versions.end());
    message.mutable_values()->Resize(kNumKeys * kDim, 0);
    std::memcpy(message.mutable_values()->mutable_data(), pull.values.begin(),
                pull.values.size());
    benchmark::DoNotOptimize(message.SerializeAsString());
  }
}
BENCHMARK(GeneratedEncodeResponse);

void GeneratedDecodeResponse(benchmark::State& state) {
  const grpc::ByteBuffer buffer = Received(Pull().Response());
  for (auto _ : state) {
    grpc::ByteBuffer copy = buffer;
    grpc::ProtoBufferReader reader(&copy);
    v1::PullSparseResponse message;
    OARLOCK_CHECK(message.ParseFromZeroCopyStream(&reader));
    benchmark::DoNotOptimize(message);
  }
}
BENCHMARK(GeneratedDecodeResponse);

std::vector<float> SomeFloats(size_t size) {
  std::vector<float> floats(size);
  for (size_t i = 0; i < size; ++i) {
    floats[i] = static_cast<float>(i % 1000) * 1e-3f - 0.5f;
  }
  return floats;
}

void CountFloats(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) *
                          static_cast<int64_t>(sizeof(float)));
}

// What a server narrows at a time, and the rows of the whole pull.
void ValueCounts(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(2048 * kDim)->Arg(kNumKeys * kDim);
}

void CopyFloats(benchmark::State& state) {
  const std::vector<float> from = SomeFloats(state.range(0));
  std::vector<float> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  CountFloats(state);
}
BENCHMARK(CopyFloats)->Apply(ValueCounts);

template <v1::ValueFormat kFormat>
void Narrow(benchmark::State& state) {
  const std::vector<float> from = SomeFloats(state.range(0));
  std::vector<uint16_t> to(from.size());
  for (auto _ : state) {
    wire::NarrowValues(kFormat, from, absl::MakeSpan(to));
    benchmark::ClobberMemory();
  }
  CountFloats(state);
}
BENCHMARK_TEMPLATE(Narrow, v1::BFLOAT16)->Apply(ValueCounts);
BENCHMARK_TEMPLATE(Narrow, v1::FLOAT16)->Apply(ValueCounts);

template <v1::ValueFormat kFormat>
void Widen(benchmark::State& state) {
  const std::vector<float> floats = SomeFloats(state.range(0));
  std::vector<uint16_t> from(floats.size());
  wire::NarrowValues(kFormat, floats, absl::MakeSpan(from));
  std::vector<float> to(from.size());
  for (auto _ : state) {
    wire::WidenValues(kFormat, from.data(), absl::MakeSpan(to));
    benchmark::ClobberMemory();
  }
  CountFloats(state);
}
BENCHMARK_TEMPLATE(Widen, v1::BFLOAT16)->Apply(ValueCounts);
BENCHMARK_TEMPLATE(Widen, v1::FLOAT16)->Apply(ValueCounts);

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  oarlock::KeepFreedMemory();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
