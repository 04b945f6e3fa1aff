// How the two ends of a control channel set up a pair of UCX workers that reach each other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/channel/channel_set_up.h"
#include "transport/ucx/agreed.h"
#include "transport/ucx/set_up_message.h"

namespace tombolo::transport::ucx {

/// A context over the NICs of this host that have the addresses. Throws where there can be none.
using ContextFor = std::function<std::shared_ptr<Context>(const std::vector<std::string>& addresses,
                                                          topology::NicKind kind, bool without_tcp)>;

class ConnectionSetUp final : public channel::ChannelSetUp<SetUpMessage> {
 public:
  ConnectionSetUp(channel::ControlChannel channel, ContextFor context_for, bool without_tcp);
  ~ConnectionSetUp() override;

 private:
  /// A message that shows that bytes get through. A small and a large one are tried, because UCX sends them
  /// in different ways.
  struct Test {
    std::vector<std::byte> data;
    void* request = nullptr;
    bool done = false;
  };

  Kind hear(const SetUpMessage& message) override;
  void watch_test() override;
  bool append_test_handles(std::vector<pollfd>& handles) const override;
  std::unique_ptr<Connection> make() override;

  SetUpMessage mine(Kind kind) const;
  void open(const std::vector<std::string>& addresses, bool without_tcp);
  void start_test(const SetUpMessage& peer);
  void look_at_test();
  bool finished(Test& test, std::string_view what);

  Agreed agreed_;
  ContextFor context_for_;
  bool without_tcp_;
  std::uint64_t proof_ = 0;
  std::vector<Test> outgoing_, incoming_;
};

}  // namespace tombolo::transport::ucx
