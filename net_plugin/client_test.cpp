// What the client says of libraries that it cannot drive, and how it translates between the ABI's versions;
// with the plugin it is used by tests/process/net_conformance_*_test.cpp.
#include "net_plugin/client.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace tombolo::net_plugin {
namespace {

template <typename Action>
std::string refusal_of(Cause cause, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), cause) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(NetClient, NamesALibraryThatCannotBeLoaded) {
  const std::string text = refusal_of(Cause::kSystem, [] { Client::load("/nowhere/libnccl-net.so", 9); });
  EXPECT_NE(text.find("cannot load net plugin '/nowhere/libnccl-net.so'"), std::string::npos) << text;
  EXPECT_NE(text.find("No such file"), std::string::npos) << text;
}

TEST(NetClient, NamesTheVersionThatALibraryLacks) {
  EXPECT_EQ(refusal_of(Cause::kUnsupported, [] { Client::load("libc.so.6", 9); }),
            "net plugin 'libc.so.6' has no ncclNetPlugin_v9 (this program drives v6 to v12)");
}

TEST(NetClient, DrivesNoVersionThatItDoesNotKnow) {
  abi::ncclNet_v9_t table{};
  for (const int version : {5, 13}) {
    EXPECT_EQ(refusal_of(Cause::kUnsupported, [&] { Client::adopt(nullptr, &table, version); }),
              fmt::format("this program drives net ABI v6 to v12, not v{}", version));
  }
}

void* this_program() {
  return ::dlopen(nullptr, RTLD_NOW);
}

// ---- tables of two versions, whose functions note what they are called with

struct Seen {
  long long size = 0;
  int count = 0, tag = -1;
  void* data = nullptr;
} seen;

abi::ncclNet_v6_t oldest_table() {
  abi::ncclNet_v6_t table{};
  table.name = "old";
  table.init = [](abi::ncclDebugLogger_t) { return abi::ncclSuccess; };
  table.getProperties = [](int device, abi::ncclNetProperties_v6_t* properties) {
    properties->speed = 100 + device;
    properties->maxRecvs = 1;
    return abi::ncclSuccess;
  };
  table.isend = [](void*, void* data, int size, int tag, void*, void** request) {
    seen = {size, 1, tag, data};
    *request = data;
    return abi::ncclSuccess;
  };
  table.irecv = [](void*, int count, void** data, int* sizes, int* tags, void**, void** request) {
    seen = {sizes[0], count, tags[0], data[0]};
    *request = nullptr;
    return abi::ncclInternalError;
  };
  return table;
}

TEST(NetClient, OfTheOldestVersionHasNoContextAndLeavesNewerPropertiesAlone) {
  auto table = oldest_table();
  const auto client = Client::adopt(this_program(), &table, kOldestAbi);
  EXPECT_EQ(client->abi_version(), 6);
  EXPECT_EQ(client->name(), "old");
  int something = 0;
  void* context = &something;
  EXPECT_EQ(client->init(&context, 7, nullptr), abi::ncclSuccess);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(client->finalize(nullptr), abi::ncclSuccess);
  abi::ncclNetProperties_v12_t properties{};
  properties.railId = 41;
  properties.maxP2pBytes = 42;
  EXPECT_EQ(client->get_properties(3, &properties), abi::ncclSuccess);
  EXPECT_EQ(properties.speed, 103);
  EXPECT_EQ(properties.maxRecvs, 1);
  EXPECT_EQ(properties.railId, 41);
  EXPECT_EQ(properties.maxP2pBytes, 42u);
}

TEST(NetClient, HandsSizesAndResultsThrough) {
  auto table = oldest_table();
  const auto client = Client::adopt(this_program(), &table, kOldestAbi);
  int data = 0;
  void* request = nullptr;
  EXPECT_EQ(client->send(nullptr, &data, 1000, nullptr, &request), abi::ncclSuccess);
  EXPECT_EQ(request, &data);
  EXPECT_EQ(seen.size, 1000);
  EXPECT_EQ(client->receive(nullptr, &data, 2000, nullptr, &request), abi::ncclInternalError);
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(seen.size, 2000);
  EXPECT_EQ(seen.count, 1);
  EXPECT_EQ(seen.tag, 0);
  EXPECT_EQ(seen.data, &data);
}

TEST(NetClient, OfTheNewestVersionGivesContextAndWholeSizes) {
  abi::ncclNet_v12_t table{};
  table.init = [](void** context, std::uint64_t communicator, abi::ncclNetCommConfig_v10_t* config,
                  abi::ncclDebugLogger_t, auto) {
    *context = reinterpret_cast<void*>(communicator);
    return config->trafficClass == abi::NCCL_NET_TRAFFIC_CLASS_UNDEF ? abi::ncclSuccess
                                                                     : abi::ncclInternalError;
  };
  table.finalize = [](void* context) {
    return context == reinterpret_cast<void*>(7) ? abi::ncclSystemError : abi::ncclSuccess;
  };
  table.isend = [](void*, void* data, std::size_t size, int tag, void*, void*, void** request) {
    seen = {static_cast<long long>(size), 1, tag, data};
    *request = data;
    return abi::ncclSuccess;
  };
  const auto client = Client::adopt(this_program(), &table, kNewestAbi);
  void* context = nullptr;
  EXPECT_EQ(client->init(&context, 7, nullptr), abi::ncclSuccess);
  EXPECT_EQ(context, reinterpret_cast<void*>(7));
  EXPECT_EQ(client->finalize(context), abi::ncclSystemError) << "the plugin's own result";
  int data = 0;
  void* request = nullptr;
  constexpr std::size_t kLarge = std::size_t{3} << 30;
  EXPECT_EQ(client->send(nullptr, &data, kLarge, nullptr, &request), abi::ncclSuccess);
  EXPECT_EQ(seen.size, static_cast<long long>(kLarge)) << "of which an int would make a negative number";
}

}  // namespace
}  // namespace tombolo::net_plugin
