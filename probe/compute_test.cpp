// Which device a rank measures. That it is measured, alone and together with the others, is tested with the
// whole probe (tests/process/probe_test.cpp).
#include <gtest/gtest.h>

#include <limits>

#include "collectives/testing/test_support.h"
#include "probe/probe.h"

namespace tombolo::probe {
namespace {

topology::Device gpu_at(const std::string& pci_path) {
  topology::Device gpu;
  gpu.kind = topology::DeviceKind::kGpu;
  gpu.pci_path = pci_path;
  return gpu;
}

TEST(GpuOfARank, IsTheOneWithItsNumberOnItsHost) {
  const auto on_two_hosts = [](collectives::Options& options) {
    options.router.host.name = options.identity.rank % 2 == 0 ? "a" : "b";
    options.identity.local_rank = options.identity.rank / 2;
  };
  const auto check = [](collectives::Communicator& communicator) {
    topology::Host host;
    host.devices = {gpu_at("/sys/devices/pci0000:17/0000:18:00.0"), topology::Device(), gpu_at("")};
    const auto found = gpu_of(communicator, host);
    const int local = communicator.rank() / 2;
    ASSERT_EQ(found.has_value(), local == 0 || local == 2) << "rank " << communicator.rank();
    if (!found) return;
    EXPECT_EQ(found->pci_address, local == 0 ? "0000:18:00.0" : "") << "rank " << communicator.rank();
    EXPECT_EQ(found->ordinal, local);
  };
  collectives::test::expect_fine(collectives::test::run_ranks("AAAAAAAA", check, on_two_hosts));
}

TEST(ComputeProbe, RefusesSizesAndTimesThatMeasureNothing) {
  collectives::test::expect_fine(
      collectives::test::run_ranks("A", [](collectives::Communicator& communicator) {
        for (const ComputeProbeOptions& options :
             {ComputeProbeOptions{.rows = 0}, ComputeProbeOptions{.inner = -1},
              ComputeProbeOptions{.columns = 0}, ComputeProbeOptions{.seconds = 0},
              ComputeProbeOptions{.seconds = std::numeric_limits<double>::quiet_NaN()}}) {
          try {
            probe_compute(communicator, options);
            ADD_FAILURE() << "nothing was refused";
          } catch (const Error& error) {
            EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << error.what();
          }
        }
      }));
}

}  // namespace
}  // namespace tombolo::probe
