// The framing of TCP streams: headers, and the checksum of payloads.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "bench/micro/subjects.h"
#include "transport/tcp/stream/wire.h"

namespace tombolo::bench::micro {
namespace {

using namespace transport::tcp;

FrameHeader chunk_header() {
  FrameHeader header;
  header.type = FrameType::kChunk;
  header.sequence = 12345;
  header.length = 1 << 20;
  header.total = std::uint64_t{64} << 20;
  header.offset = std::uint64_t{3} << 20;
  header.ack = 77;
  return header;
}

void measure_encode(benchmark::State& state) {
  FrameHeader header = chunk_header();
  HeaderBytes bytes;
  for (auto _ : state) {
    benchmark::DoNotOptimize(header);
    encode(header, bytes);
    benchmark::DoNotOptimize(bytes);
  }
}

/// Works as a receiver does: checks the checksum first, and then decodes.
void measure_decode(benchmark::State& state) {
  HeaderBytes bytes;
  encode(chunk_header(), bytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    benchmark::DoNotOptimize(intact(bytes));
    benchmark::DoNotOptimize(decode(bytes));
  }
}

void measure_checksum(benchmark::State& state,
                      std::uint32_t (*checksum)(std::span<const std::byte>) noexcept) {
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)), std::byte{0x5a});
  for (auto _ : state) benchmark::DoNotOptimize(checksum(data));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

}  // namespace

void register_framing() {
  benchmark::RegisterBenchmark("framing/encode_header", measure_encode);
  benchmark::RegisterBenchmark("framing/check_and_decode_header", measure_decode);
  benchmark::RegisterBenchmark("framing/crc32c",
                               [](benchmark::State& state) { measure_checksum(state, &crc32c); })
      ->ArgName("bytes")
      ->Arg(64)
      ->Arg(4 << 10)
      ->Arg(64 << 10)
      ->Arg(1 << 20);
  benchmark::RegisterBenchmark("framing/crc32c_by_table",
                               [](benchmark::State& state) { measure_checksum(state, &crc32c_by_table); })
      ->ArgName("bytes")
      ->Arg(64 << 10);
}

}  // namespace tombolo::bench::micro
