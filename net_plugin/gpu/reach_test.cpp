#include "net_plugin/gpu/reach.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "net_plugin/gpu/support.h"
#include "topology/testing/pretended_cuda.h"
#include "topology/testing/recorded_tree.h"
#include "transport/testing/pretended_verbs.h"

namespace tombolo::net_plugin::gpu {
namespace {

using topology::test::PretendedCuda;
using topology::test::PretendedCudaOptions;
using transport::test::PretendedVerbs;

topology::Nic nic(topology::NicKind kind, const std::string& device = {}) {
  topology::Nic made;
  made.name = device.empty() ? "eth0" : "net-" + device;
  made.kind = kind;
  made.rdma_device = device;
  return made;
}

topology::Nic roce() {
  return nic(topology::NicKind::kRoce, PretendedVerbs::name(0));
}

ibv_mr* refuse_with(int error) {
  errno = error;
  return nullptr;
}

class Reach : public ::testing::Test {
 protected:
  Reach()
      : verbs_(std::const_pointer_cast<topology::VerbsFunctions>(PretendedVerbs::instance().functions())) {}
  ~Reach() override { PretendedCuda::instance().reset(); }

  NicReach reach(const topology::Nic& of, bool gpu_direct, bool dma_buf) {
    PretendedCudaOptions options;
    options.gpu_direct_rdma = gpu_direct;
    options.dma_buf = dma_buf;
    PretendedCuda::instance().reset(options);
    const auto cuda = CudaFunctions::load(nullptr);
    const topology::SysTree sys(tree_.root());
    return reach_of(of, {cuda.get(), {}, verbs_.get(), "there is no libibverbs", &sys});
  }
  void load_peer_memory() { tree_.file("/sys/module/nvidia_peermem/version", "580.1"); }
  static constexpr auto kKnowsDmaBuf = [](ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int file,
                                          int) -> ibv_mr* { return refuse_with(file < 0 ? EBADF : ENOMEM); };
  static constexpr auto kKnowsNone = [](ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int,
                                        int) -> ibv_mr* { return refuse_with(EOPNOTSUPP); };

  topology::RecordedTree tree_;
  std::shared_ptr<topology::VerbsFunctions> verbs_;
};

TEST_F(Reach, ATcpNicStages) {
  const NicReach found = reach(nic(topology::NicKind::kTcp), true, true);
  EXPECT_EQ(found.reach, GpuReach::kStaged);
  EXPECT_EQ(found.reason, "its bytes go over TCP");
  topology::Nic emulated = roce();
  emulated.emulated = true;
  EXPECT_EQ(reach(emulated, true, true).reach, GpuReach::kStaged);
}

TEST_F(Reach, WithoutACudaDriverThereIsHostMemoryAlone) {
  const topology::SysTree sys(tree_.root());
  const NicReach found = reach_of(roce(), {nullptr, "no driver", verbs_.get(), {}, &sys});
  EXPECT_EQ(found.reach, GpuReach::kHost);
  EXPECT_EQ(found.reason, "no driver");
}

TEST_F(Reach, DmaBufNeedsTheGpusDriverAndTheNics) {
  verbs_->reg_dmabuf_mr = kKnowsDmaBuf;
  NicReach found = reach(roce(), true, true);
  EXPECT_EQ(found.reach, GpuReach::kDirect) << found.reason;
  EXPECT_TRUE(found.dma_buf);
  EXPECT_FALSE(found.peer_memory) << "the one without the other";
  EXPECT_EQ(found.reason, "DMA-BUF");

  found = reach(roce(), true, false);
  EXPECT_EQ(found.reach, GpuReach::kStaged);
  EXPECT_EQ(found.reason,
            "the module nvidia_peermem is not loaded, and the driver gives no DMA-BUF for GPU 0");

  verbs_->reg_dmabuf_mr = kKnowsNone;
  found = reach(roce(), true, true);
  EXPECT_EQ(found.reach, GpuReach::kStaged);
  EXPECT_NE(found.reason.find("the driver of pretended0 knows no DMA-BUF"), std::string::npos)
      << found.reason;
  verbs_->reg_dmabuf_mr = nullptr;
  EXPECT_NE(reach(roce(), true, true).reason.find("this libibverbs knows no DMA-BUF"), std::string::npos);
}

TEST_F(Reach, PeerMemoryNeedsTheModuleAndTheGpu) {
  verbs_->reg_dmabuf_mr = kKnowsNone;
  EXPECT_FALSE(reach(roce(), true, false).peer_memory);
  load_peer_memory();
  EXPECT_TRUE(reach(roce(), true, false).peer_memory);
  EXPECT_EQ(reach(roce(), true, false).reach, GpuReach::kDirect);
  EXPECT_FALSE(reach(roce(), false, true).peer_memory) << "the GPU does not take part";
  EXPECT_EQ(reach(roce(), false, true).no_peer_memory,
            "nvidia_peermem is loaded, but the driver gives no GPUDirect RDMA for GPU 0");
}

TEST_F(Reach, AnOlderModuleOfPeerMemoryCounts) {
  verbs_->reg_dmabuf_mr = kKnowsNone;
  tree_.file("/sys/kernel/mm/memory_peers/nv_mem/version", "1.1");
  EXPECT_TRUE(reach(roce(), true, false).peer_memory);
}

class GpuSupport : public ::testing::Test {
 protected:
  GpuSupport() {
    PretendedCuda::instance().reset();
    cuda_ = CudaFunctions::load(nullptr);
  }
  ~GpuSupport() override { PretendedCuda::instance().reset(); }
  std::shared_ptr<const CudaFunctions> cuda_;
  const std::vector<topology::Nic> tcp_{nic(topology::NicKind::kTcp)};
  const std::vector<topology::Nic> two_{nic(topology::NicKind::kRoce, "r0"),
                                        nic(topology::NicKind::kRoce, "r1"), nic(topology::NicKind::kTcp)};
  static GpuOptions mode(GpuMode which) {
    GpuOptions options;
    options.mode = which;
    return options;
  }
  static NicReach direct(bool peer_memory, bool dma_buf) {
    return {GpuReach::kDirect, peer_memory, dma_buf, "a module"};
  }
};

TEST_F(GpuSupport, PromisesNothingByDefault) {
  const Support support;
  EXPECT_FALSE(support.promise(tcp_).gpu_memory());
  EXPECT_FALSE(support.wants_staging(tcp_));
  EXPECT_EQ(support.describe(tcp_), "host memory");
}

TEST_F(GpuSupport, StagesOnADeviceWithoutRdmaOnlyWhereAsked) {
  EXPECT_FALSE(Support(mode(GpuMode::kAuto), cuda_).promise(tcp_).gpu_memory())
      << "NCCL's own kernels write host memory: a copy would be added";
  const Support staged(mode(GpuMode::kStaged), cuda_);
  EXPECT_TRUE(staged.promise(tcp_).by_address);
  EXPECT_FALSE(staged.promise(tcp_).dma_buf);
  EXPECT_TRUE(staged.wants_staging(tcp_));
  EXPECT_EQ(staged.describe(tcp_), "host memory and, staged, GPU memory");
}

TEST_F(GpuSupport, PromisesWhatAllRdmaNicsOfADeviceCan) {
  const Support support(mode(GpuMode::kAuto), cuda_,
                        {{"net-r0", direct(true, true)}, {"net-r1", direct(false, true)}});
  const DevicePromise made = support.promise(two_);
  EXPECT_TRUE(made.direct);
  EXPECT_TRUE(made.dma_buf);
  EXPECT_FALSE(made.by_address);
  EXPECT_TRUE(support.wants_staging(two_)) << "its connections over TCP do";
  EXPECT_EQ(support.describe(two_), "host and GPU memory");

  const Support apart(mode(GpuMode::kAuto), cuda_,
                      {{"net-r0", direct(true, false)}, {"net-r1", direct(false, true)}});
  EXPECT_FALSE(apart.promise(two_).gpu_memory());
  EXPECT_FALSE(Support(mode(GpuMode::kStaged), cuda_).promise(two_).gpu_memory()) << "RDMA does not stage";
}

TEST_F(GpuSupport, OffPromisesNothing) {
  const Support support(mode(GpuMode::kOff), cuda_,
                        {{"net-r0", direct(true, true)}, {"net-r1", direct(true, true)}});
  EXPECT_FALSE(support.promise(two_).gpu_memory());
}

TEST_F(GpuSupport, WhatWasDemandedAndIsNotThereIsAnErrorThatSaysWhy) {
  const std::map<std::string, NicReach> reach{{"eth0", {GpuReach::kStaged, false, false, "TCP"}}};
  for (const auto& [which, cuda] :
       {std::pair{GpuMode::kDirect, cuda_}, std::pair{GpuMode::kStaged, decltype(cuda_)()}}) {
    try {
      const Support support(mode(which), cuda, reach);
      FAIL() << "it is not there";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("eth0: TCP"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("TOMBOLO_NET_GPU="), std::string::npos) << error.what();
    }
  }
  EXPECT_FALSE(Support(mode(GpuMode::kDirect), cuda_, {{"net-r0", direct(true, true)}}).wants_staging(two_));
}

std::vector<std::string> usable(const std::vector<topology::Nic>& nics) {
  std::vector<std::string> names;
  for (const topology::Nic& one : nics)
    if (one.usable) names.push_back(one.name);
  return names;
}

using Names = std::vector<std::string>;

TEST_F(GpuSupport, DirectLeavesOutTheRdmaNicsThatDoNotReachGpuMemory) {
  const std::map<std::string, NicReach> reach{
      {"net-r0", direct(true, false)},
      {"net-r1", {GpuReach::kStaged, false, false, "its driver knows no DMA-BUF", "no module", "no driver"}},
      {"eth0", {GpuReach::kStaged, false, false, "TCP"}}};
  const Support support(mode(GpuMode::kDirect), cuda_, reach);
  std::vector<topology::Nic> nics = two_;
  support.leave_out(nics);
  EXPECT_EQ(usable(nics), (Names{"net-r0", "eth0"})) << "TCP NICs stand by";
  EXPECT_NE(nics[1].reason.find("TOMBOLO_NET_GPU="), std::string::npos) << nics[1].reason;
  EXPECT_NE(nics[1].reason.find("its driver knows no DMA-BUF"), std::string::npos) << nics[1].reason;
  std::erase_if(nics, [](const topology::Nic& one) { return !one.usable; });
  EXPECT_TRUE(support.promise(nics).direct);
  EXPECT_FALSE(support.promise(two_).direct) << "a connection could go over either";

  nics = two_;
  Support(mode(GpuMode::kAuto), cuda_, reach).leave_out(nics);
  EXPECT_EQ(usable(nics), (Names{"net-r0", "net-r1", "eth0"}));
}

TEST_F(GpuSupport, DirectKeepsNicsThatReachGpuMemoryInOneWay) {
  NicReach by_address = direct(true, false), by_dma_buf = direct(false, true);
  by_address.no_dma_buf = "its driver knows no DMA-BUF";
  std::vector<topology::Nic> nics = two_;
  nics.push_back(nic(topology::NicKind::kInfiniBand, "r2"));
  const Support support(mode(GpuMode::kDirect), cuda_,
                        {{"net-r0", by_address}, {"net-r1", by_dma_buf}, {"net-r2", direct(true, true)}});
  support.leave_out(nics);
  std::erase_if(nics, [](const topology::Nic& one) { return !one.usable; });
  EXPECT_EQ(nics.size(), 3U) << "two RDMA NICs and Ethernet";
  EXPECT_TRUE(support.promise(nics).direct);
}

TEST_F(GpuSupport, AnIwarpNicThatStandsByTakesNoPromiseAway) {
  std::vector<topology::Nic> nics = two_;
  nics.push_back(nic(topology::NicKind::kIwarp, "i0"));
  const Support support(mode(GpuMode::kAuto), cuda_,
                        {{"net-r0", direct(true, true)},
                         {"net-r1", direct(true, true)},
                         {"net-i0", {GpuReach::kStaged, false, false, "its bytes go over TCP"}}});
  EXPECT_TRUE(support.promise(nics).direct);
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
