// For tests: communicators, by what NCCL calls, over NICs that reach GPU memory and fail: over a library of
// verbs without hardware, whose NICs write the memory of a pretended GPU.
#pragma once

#include <gtest/gtest.h>

#include "net_plugin/comms/context.h"
#include "net_plugin/entry_points.h"
#include "net_plugin/testing/gpu_failover.h"

namespace tombolo::net_plugin::gpu {

/// Two hosts, "left" and "right", whose one RDMA NIC reaches GPU memory.
class GpuFailoverOfComms : public GpuFailover {
 protected:
  std::shared_ptr<Node> node(const std::string& host, GpuMode mode) {
    auto made = std::make_shared<Node>();
    made->router = options(host, 1, Directions::kBoth, nullptr);
    made->devices = std::make_unique<DeviceList>(make_devices(made->router.host, DeviceMode::kMerged));
    made->deadline = std::chrono::seconds(60);
    made->gpu = std::make_shared<Support>(
        GpuOptions{.mode = mode}, CudaFunctions::load(nullptr),
        std::map<std::string, NicReach>{{"rail0", {GpuReach::kDirect, true, true, {}}}});
    EXPECT_TRUE(made->gpu->promise(made->devices->at(0).host.nics).direct);
    return made;
  }
  struct Comms {
    std::unique_ptr<Comm> send, receive;  ///< of "left" and of "right"
  };
  static Comms connect_comms(Context& from, Context& to) {
    const auto listener = to.listen(0);
    const HandleBytes handle = listener->handle();
    Comms made;
    for (auto deadline = soon(); !(made.send && made.receive) && !deadline.passed();) {
      if (!made.send) made.send = from.connect(0, handle);
      if (!made.receive) made.receive = listener->accept();
    }
    return made;
  }

  /// Memory that NCCL has registered with a comm.
  class Registered {
   public:
    Registered(Comm& comm, std::size_t bytes, bool on_gpu) : comm_(comm), on_gpu_(on_gpu), host_(bytes) {
      data_ = on_gpu ? cuda().allocate(bytes) : host_.data();
      EXPECT_EQ(entry::register_memory(&comm, data_, bytes, on_gpu ? abi::NCCL_PTR_CUDA : abi::NCCL_PTR_HOST,
                                       &memory_),
                abi::ncclSuccess);
    }
    ~Registered() {
      EXPECT_EQ(entry::deregister_memory(&comm_, memory_), abi::ncclSuccess);
      if (on_gpu_) cuda().release(data_);
    }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;

    void* data() const { return data_; }
    void* memory() const { return memory_; }
    void write(const std::vector<std::byte>& bytes) {
      if (on_gpu_)
        cuda().write(data_, bytes);
      else
        std::ranges::copy(bytes, data_);
    }
    std::vector<std::byte> read() const { return on_gpu_ ? cuda().read(data_, host_.size()) : host_; }

   private:
    Comm& comm_;
    bool on_gpu_;
    std::vector<std::byte> host_;
    std::byte* data_ = nullptr;
    void* memory_ = nullptr;
  };
};

}  // namespace tombolo::net_plugin::gpu
