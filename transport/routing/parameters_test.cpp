#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "transport/routing/router.h"

namespace tombolo::transport {
namespace {

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
}

TEST(NicLimits, AreReadAsBitsPerSecond) {
  Environment set("TOMBOLO_NIC_LIMITS", "eth0=100M,fast0=2.5G");
  auto limits = RouterOptions::from_environment().limits;
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[0].nic, "eth0");
  EXPECT_DOUBLE_EQ(limits[0].bytes_per_second, 12.5e6);
  EXPECT_EQ(limits[1].nic, "fast0");
  EXPECT_DOUBLE_EQ(limits[1].bytes_per_second, 312.5e6);
}

TEST(NicLimits, NonsenseIsNamed) {
  for (const char* wrong :
       {"eth0", "eth0=", "=5M", "eth0=fast", "eth0=-1M", "eth0=0", "eth0=5MB", "eth0=nan"}) {
    Environment set("TOMBOLO_NIC_LIMITS", wrong);
    std::string text = refusal([] { RouterOptions::from_environment(); });
    EXPECT_NE(text.find("TOMBOLO_NIC_LIMITS"), std::string::npos) << wrong << ": " << text;
    EXPECT_NE(text.find(wrong), std::string::npos) << text;
  }
}

TEST(Policy, ComesFromTheEnvironment) {
  EXPECT_FALSE(Policy::from_environment().require_rdma);
  Environment require("TOMBOLO_REQUIRE", "rdma");
  Environment transports("TOMBOLO_TRANSPORTS", "tcp");
  Policy policy = Policy::from_environment();
  EXPECT_TRUE(policy.require_rdma);
  EXPECT_EQ(policy.transports, std::vector<std::string>{"tcp"});
}

TEST(Policy, UnknownTransportsAreRefused) {
  Environment set("TOMBOLO_TRANSPORTS", "tcp,carrier-pigeon");
  EXPECT_NE(refusal([] { Policy::from_environment(); }).find("carrier-pigeon"), std::string::npos);
}

TEST(TcpOptions, ComeFromTheEnvironment) {
  Environment streams("TOMBOLO_TCP_STREAMS", "3");
  Environment chunk("TOMBOLO_TCP_CHUNK", "128K");
  Environment idle("TOMBOLO_TCP_IDLE_TIMEOUT", "2.5");
  TcpOptions options = TcpOptions::from_environment();
  EXPECT_EQ(options.streams, 3);
  EXPECT_EQ(options.chunk_bytes, 128u * 1024);
  EXPECT_EQ(options.idle_timeout, std::chrono::milliseconds(2500));
}

TEST(TlsOptions, ComeFromTheEnvironment) {
  EXPECT_EQ(TlsOptions::from_environment().use, TlsUse::kOff);
  {
    Environment use("TOMBOLO_TLS", "on");
    EXPECT_EQ(TlsOptions::from_environment().use, TlsUse::kOn);
  }
  Environment use("TOMBOLO_TLS", "between-clusters");
  Environment certificate("TOMBOLO_TLS_CERTIFICATE", "/rank.crt");
  Environment key("TOMBOLO_TLS_KEY", "/rank.key");
  Environment authority("TOMBOLO_TLS_AUTHORITY", "/authority.crt");
  const TlsOptions tls = TlsOptions::from_environment();
  EXPECT_EQ(tls.use, TlsUse::kBetweenClusters);
  EXPECT_EQ(tls.certificate, "/rank.crt");
  EXPECT_EQ(tls.key, "/rank.key");
  EXPECT_EQ(tls.authority, "/authority.crt");
}

TEST(TcpOptions, OutOfRangeIsRefused) {
  for (auto [name, value] : {std::pair{"TOMBOLO_TCP_STREAMS", "65"},
                             {"TOMBOLO_TCP_STREAMS", "-1"},
                             {"TOMBOLO_TCP_CHUNK", "2G"},
                             {"TOMBOLO_TCP_IDLE_TIMEOUT", "0"}}) {
    Environment set(name, value);
    EXPECT_NE(refusal([] { TcpOptions::from_environment(); }).find(name), std::string::npos) << name << value;
  }
}

TEST(RdmaOptions, ComeFromTheEnvironment) {
  EXPECT_EQ(RdmaOptions::from_environment().traffic_class, 0);
  Environment traffic_class("TOMBOLO_RDMA_TC", "106"), service_level("TOMBOLO_RDMA_SL", "3");
  const RdmaOptions options = RdmaOptions::from_environment();
  EXPECT_EQ(options.traffic_class, 106);
  EXPECT_EQ(options.service_level, 3);
}

TEST(RdmaOptions, OutOfRangeIsRefused) {
  for (auto [name, value, expected] : {std::tuple{"TOMBOLO_RDMA_TC", "256", "0 to 255"},
                                       {"TOMBOLO_RDMA_TC", "-1", "0 to 255"},
                                       {"TOMBOLO_RDMA_SL", "16", "0 to 15"},
                                       {"TOMBOLO_RDMA_TIMEOUT", "32", "0 to 31"},
                                       {"TOMBOLO_RDMA_RETRIES", "8", "0 to 7"}}) {
    Environment set(name, value);
    EXPECT_EQ(refusal([] { RdmaOptions::from_environment(); }),
              fmt::format("{}={}: expected {}", name, value, expected));
  }
  Environment set("TOMBOLO_RDMA_TC", "high");
  EXPECT_NE(refusal([] { RdmaOptions::from_environment(); }).find("TOMBOLO_RDMA_TC"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::transport
