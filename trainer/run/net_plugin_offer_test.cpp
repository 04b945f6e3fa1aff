#include "trainer/run/net_plugin_offer.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tombolo::trainer {
namespace {

/// A library by the plugin's name, in a folder where no loader looks.
const std::string kPlace = std::string(TOMBOLO_FAKE_NCCL_FOLDER) + "/libnccl-net-tombolo.so";

class NetPluginOffer : public ::testing::Test {
 protected:
  NetPluginOffer() { forget(); }
  ~NetPluginOffer() override { forget(); }
  static void forget() {
    ::unsetenv("NCCL_NET_PLUGIN");
    ::unsetenv("NCCL_NET_PLUGIN_REF_COUNT");
  }
  static std::string value(const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "(not set)";
  }
};

TEST_F(NetPluginOffer, AfterwardsTheLoaderFindsThePluginByTheNameThatEveryReleaseTakes) {
  EXPECT_EQ(offer_net_plugin({"/nonexistent/libnccl-net-tombolo.so", kPlace}), "tombolo (" + kPlace + ")");
  EXPECT_EQ(value("NCCL_NET_PLUGIN"), "tombolo");
  EXPECT_EQ(value("NCCL_NET_PLUGIN_REF_COUNT"), "1");
  void* handle = ::dlopen("libnccl-net-tombolo.so", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << ::dlerror();
  ::dlclose(handle);
}

TEST_F(NetPluginOffer, WhatTheUserSaysIsLeft) {
  ::setenv("NCCL_NET_PLUGIN", "none", 1);
  EXPECT_EQ(offer_net_plugin({kPlace}), "none");
  EXPECT_EQ(value("NCCL_NET_PLUGIN_REF_COUNT"), "(not set)");
  forget();
  ::setenv("NCCL_NET_PLUGIN_REF_COUNT", "0", 1);
  offer_net_plugin({kPlace});
  EXPECT_EQ(value("NCCL_NET_PLUGIN_REF_COUNT"), "0");
}

TEST_F(NetPluginOffer, WithoutAPluginNothingIsSet) {
  EXPECT_EQ(offer_net_plugin({"/nonexistent/libnccl-net-tombolo.so"}), "");
  EXPECT_EQ(value("NCCL_NET_PLUGIN"), "(not set)");
  EXPECT_EQ(value("NCCL_NET_PLUGIN_REF_COUNT"), "(not set)");
}

}  // namespace
}  // namespace tombolo::trainer
