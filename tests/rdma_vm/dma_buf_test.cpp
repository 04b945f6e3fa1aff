// Memory that is registered as DMA-BUF, as a GPU's driver exports it, with NICs of real verbs. The kernel
// exports host memory so, too (udmabuf), where it is built with that.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cstring>
#include <iostream>

#include "base/randomized_test.h"
#include "transport/descriptor.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::test {
namespace {

constexpr std::size_t kBytes = 1 << 20, kOffset = 8192;

class DmaBuf : public testing::Test {
 protected:
  void SetUp() override {
    if (rdma_hosts().size() != 2) GTEST_SKIP() << "TOMBOLO_TEST_RDMA names no NICs";
    file_ = Descriptor(::memfd_create("exported", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_TRUE(file_) << std::strerror(errno);
    ASSERT_EQ(::ftruncate(file_.get(), kBytes), 0);
    ASSERT_EQ(::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    void* at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    ASSERT_NE(at, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(at), kBytes};
    const Descriptor maker(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
    if (!maker) {
      told_ = fmt::format("/dev/udmabuf: {}", std::strerror(errno));
      return;
    }
    udmabuf_create of{};
    of.memfd = static_cast<std::uint32_t>(file_.get());
    of.flags = UDMABUF_FLAGS_CLOEXEC;
    of.size = kBytes;
    exported_ = Descriptor(::ioctl(maker.get(), UDMABUF_CREATE, &of));
    ASSERT_TRUE(exported_) << std::strerror(errno);
    told_ = "the kernel exports host memory (udmabuf)";
  }
  ~DmaBuf() override {
    if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
  }

  Descriptor file_, exported_;
  std::span<std::byte> memory_;
  std::string told_;
};

// A driver that cannot register any says so before it looks at the descriptor: then the error must say that,
// and that is all that can be told there.
TEST_F(DmaBuf, IsCarriedOrRefusedWithTheDriversWord) {
  std::mt19937_64 random(test_seed());
  RdmaOptions options;
  options.eager_bytes = 0;
  auto both = rdma_router_options(1, options);
  auto pair = connect_routers(both.at(0), both.at(1));
  ASSERT_TRUE(pair.first && pair.second);
  const int file = exported_ ? exported_.get() : file_.get();
  const auto range = memory_.subspan(kOffset);
  std::unique_ptr<Memory> registered;
  std::string refusal;
  try {
    registered = pair.second->register_dma_buf(range, file, kOffset);
  } catch (const Error& error) {
    refusal = error.what();
  }
  std::cout << "DMA-BUF: " << told_ << "; the NIC's driver: " << (refusal.empty() ? "takes it" : refusal)
            << "\n";
  if (!refusal.empty()) {
    EXPECT_NE(refusal.find(std::strerror(EOPNOTSUPP)), std::string::npos) << refusal;
    return;
  }
  ASSERT_TRUE(exported_) << "a file that is no DMA-BUF was registered as one";
  const auto data = random_data(random, range.size());
  auto* receive = pair.second->post_receive(range, registered.get());
  auto* send = pair.first->post_send(data);
  std::size_t bytes = 0;
  ASSERT_EQ(finish(*pair.second, receive, bytes, pair.first.get()), Outcome::kDone);
  EXPECT_EQ(bytes, data.size());
  ASSERT_EQ(finish(*pair.first, send, bytes, pair.second.get()), Outcome::kDone);
  EXPECT_TRUE(std::ranges::equal(range, data));
}

}  // namespace
}  // namespace tombolo::transport::test
