// The contract of transport.h, run against every backend.
#include "transport/testing/conformance.h"

#include "transport/testing/pretended_rdma.h"

namespace tombolo::transport::test {
namespace {

TcpOptions tcp(int streams, std::size_t chunk = 0) {
  TcpOptions options;
  options.streams = streams;
  options.chunk_bytes = chunk;
  return options;
}

TestedBackend tls(const std::string& name, const TcpOptions& options) {
  TestedBackend backend{name, false, options};
  backend.tls = TlsUse::kOn;
  return backend;
}

RdmaOptions rdma(int queue_pairs, std::size_t eager = 4096) {
  RdmaOptions options;
  options.queue_pairs = queue_pairs;
  options.eager_bytes = eager;
  return options;
}

std::vector<TestedBackend> rdma_backends() {
  if (test::rdma_hosts().empty()) return {};
  TestedBackend nothing_eager{"RdmaNothingEager", false, {}, TestedBackend::Shm::kNo, 1, rdma(1, 0)};
  nothing_eager.gpu_memory = true;
  return {TestedBackend{"Rdma", false, {}, TestedBackend::Shm::kNo, 1, rdma(1)},
          TestedBackend{"Rdma4Pairs", false, {}, TestedBackend::Shm::kNo, 1, rdma(4)}, nothing_eager,
          TestedBackend{"RdmaTwoNics", false, {}, TestedBackend::Shm::kNo, 2, rdma(2, 100)}};
}

/// The same over a library of verbs without hardware.
template <std::size_t kNics, int kQueuePairs, std::size_t kEager>
TestedBackend pretended(const std::string& name) {
  TestedBackend backend{name, false, {}};
  backend.options = pretended_rdma_options<kNics, kQueuePairs, kEager>;
  backend.gpu_memory = kEager == 0;
  return backend;
}

/// Each as it is, and with a trace of its messages.
std::vector<TestedBackend> also_traced(std::vector<TestedBackend> backends) {
  const std::size_t count = backends.size();
  for (std::size_t i = 0; i < count; ++i) {
    TestedBackend traced = backends[i];
    traced.name += "Traced";
    traced.traced = true;
    backends.push_back(std::move(traced));
  }
  return backends;
}

// Without RDMA there are none; tests/rdma_vm has some.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);
INSTANTIATE_TEST_SUITE_P(Verbs, Conformance, testing::ValuesIn(also_traced(rdma_backends())),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(PretendedVerbs, Conformance,
                         testing::Values(pretended<1, 1, 4096>("Rdma"), pretended<1, 4, 4096>("Rdma4Pairs"),
                                         pretended<1, 1, 0>("RdmaNothingEager"),
                                         pretended<2, 2, 100>("RdmaTwoNics")),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Backends, Conformance,
    testing::ValuesIn(also_traced(
        {TestedBackend{"Memory", true, {}}, TestedBackend{"TcpDefault", false, {}},
         TestedBackend{"Tcp1SmallChunks", false, tcp(1, 1000)}, TestedBackend{"Tcp4", false, tcp(4)},
         TestedBackend{"Tcp4SmallChunks", false, tcp(4, 777)},
         TestedBackend{"Tcp7TinyChunks", false, tcp(7, 61)}, tls("Tls", tcp(1)),
         tls("Tls3SmallChunks", tcp(3, 777)), TestedBackend{"Shm", false, {}, TestedBackend::Shm::kFetch},
         TestedBackend{"ShmReadOnly", false, {}, TestedBackend::Shm::kRead},
         TestedBackend{"ShmRingOnly", false, {}, TestedBackend::Shm::kRing}})),
    [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Ucx, Conformance,
                         testing::ValuesIn(also_traced({TestedBackend{
                             "Ucx", false, {}, TestedBackend::Shm::kNo, 0, {}, "tcp,self,sm"}})),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace tombolo::transport::test
