#include "net_plugin/rma/nic_way.h"

#include "base/error.h"

namespace tombolo::net_plugin::rma {

using transport::OneSided;
using transport::OneSidedOperation;

NicWay::Choice NicWay::choose(transport::Connection& connection, const Operation& operation) const noexcept {
  const RequestFrame& frame = operation.frame;
  if (!wanted_ || frame.bytes == 0 || operation.local->copier != nullptr ||
      (operation.has_signal() && frame.bytes <= kInlineBytes) || connection.one_sided() == nullptr)
    return Choice::kMessage;
  const auto found = remote_.find(frame.window);
  if (found == remote_.end()) return Choice::kAsk;
  if (!found->second) return Choice::kWait;
  // What lies outside is refused by the rank whose window it is, with the reason.
  return found->second->holds(frame.offset, frame.bytes) ? Choice::kNic : Choice::kMessage;
}

Operation& NicWay::ask(std::uint32_t rank, std::uint32_t window) {
  remote_[window].reset();
  auto& asking = asking_[window];
  asking = std::make_unique<Operation>();
  RequestFrame frame;
  frame.kind = OperationKind::kWindow;
  frame.window = window;
  asking->begin(rank, frame, nullptr, 0);
  asking->way = Operation::Way::kMessage;
  return *asking;
}

OneSided::Begun NicWay::begin(transport::Connection& connection, Operation& operation) {
  const Window& local = *operation.local;
  OneSided* nics = connection.one_sided();
  auto found = here_.find(local.number);
  if (found == here_.end()) {
    std::unique_ptr<transport::OpenWindow> made;
    try {
      made = nics->open({local.base, static_cast<std::size_t>(local.bytes)});
    } catch (const Error&) {
      // Messages need no registration.
    }
    found = here_.emplace(local.number, std::move(made)).first;
  }
  if (found->second == nullptr) return OneSided::Begun::kNever;
  OneSidedOperation& nic = operation.nic;
  nic.kind = operation.frame.kind == OperationKind::kPut ? OneSidedOperation::Kind::kWrite
                                                         : OneSidedOperation::Kind::kRead;
  nic.window = found->second.get();
  nic.local = local.at(operation.local_offset);
  nic.bytes = operation.frame.bytes;
  nic.remote = *remote_.at(operation.frame.window);
  nic.offset = operation.frame.offset;
  return nics->begin(nic);
}

bool may_overtake(const Operation& operation, const Operation& earlier) noexcept {
  const RequestFrame &mine = operation.frame, &before = earlier.frame;
  if (before.kind == OperationKind::kWindow) return true;
  const bool by_nic = earlier.way == Operation::Way::kNic;
  if (mine.kind == OperationKind::kGet) return by_nic && before.kind == OperationKind::kGet;
  if (before.kind == OperationKind::kFlush) return true;
  if (before.kind == OperationKind::kGet) return false;
  if (earlier.has_signal() && before.signal_window == mine.window) return false;
  if (before.bytes == 0) return true;
  if (!by_nic) return false;
  const bool apart = before.window != mine.window || before.offset + before.bytes <= mine.offset ||
                     mine.offset + mine.bytes <= before.offset;
  return apart || earlier.nic.state.load(std::memory_order_acquire) == OneSidedOperation::State::kDone;
}

}  // namespace tombolo::net_plugin::rma
