#include "topology/testing/pretended_verbs.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace tombolo::topology::test {

PretendedVerbs& pretended_verbs() {
  static PretendedVerbs verbs;
  return verbs;
}

namespace {

/// What the library's opaque handles really are.
struct Device : ibv_device {
  PretendedVerbsDevice* facts = nullptr;
};
struct Context : ibv_context {
  PretendedVerbsDevice* facts = nullptr;
};

PretendedVerbsPort* port_of(ibv_context* context, std::uint8_t number) {
  auto& ports = static_cast<Context*>(context)->facts->ports;
  if (number < 1 || number > ports.size() || !ports[number - 1U].answers) return nullptr;
  return &ports[number - 1U];
}

}  // namespace

// Under names of their own, because the header has other types, macros or attributes for some.
extern "C" {

ibv_device** pretended_get_device_list(int* count) __asm__("ibv_get_device_list");
ibv_device** pretended_get_device_list(int* count) {
  PretendedVerbs& verbs = pretended_verbs();
  if (!verbs.lists) return nullptr;
  ++verbs.lists_out;
  *count = static_cast<int>(verbs.devices.size());
  auto** list = new ibv_device*[verbs.devices.size() + 1];
  for (std::size_t i = 0; i < verbs.devices.size(); ++i) {
    auto* device = new Device;
    device->facts = &verbs.devices[i];
    list[i] = device;
  }
  list[verbs.devices.size()] = nullptr;
  return list;
}

void pretended_free_device_list(ibv_device** list) __asm__("ibv_free_device_list");
void pretended_free_device_list(ibv_device** list) {
  --pretended_verbs().lists_out;
  for (std::size_t i = 0; list[i] != nullptr; ++i) delete static_cast<Device*>(list[i]);
  delete[] list;
}

const char* pretended_get_device_name(ibv_device* device) __asm__("ibv_get_device_name");
const char* pretended_get_device_name(ibv_device* device) {
  return static_cast<Device*>(device)->facts->name.c_str();
}

ibv_context* pretended_open_device(ibv_device* device) __asm__("ibv_open_device");
ibv_context* pretended_open_device(ibv_device* device) {
  PretendedVerbsDevice* facts = static_cast<Device*>(device)->facts;
  if (!facts->opens) {
    errno = facts->open_error;
    return nullptr;
  }
  ++pretended_verbs().open;
  auto* context = new Context;
  context->facts = facts;
  return context;
}

int pretended_close_device(ibv_context* context) __asm__("ibv_close_device");
int pretended_close_device(ibv_context* context) {
  --pretended_verbs().open;
  delete static_cast<Context*>(context);
  return 0;
}

int pretended_query_device(ibv_context* context, ibv_device_attr* attributes) __asm__("ibv_query_device");
int pretended_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const PretendedVerbsDevice& facts = *static_cast<Context*>(context)->facts;
  attributes->phys_port_cnt = static_cast<std::uint8_t>(facts.ports.size());
  return facts.answers ? 0 : EIO;
}

int pretended_query_port(ibv_context* context, std::uint8_t number,
                         ibv_port_attr* attributes) __asm__("ibv_query_port");
int pretended_query_port(ibv_context* context, std::uint8_t number, ibv_port_attr* attributes) {
  const PretendedVerbsPort* port = port_of(context, number);
  if (port == nullptr) return EIO;
  attributes->active_mtu = static_cast<ibv_mtu>(port->mtu);
  attributes->gid_tbl_len = port->gids_in_table;
  return 0;
}

int pretended_query_gid(ibv_context* context, std::uint8_t number, int index,
                        ibv_gid* gid) __asm__("ibv_query_gid");
int pretended_query_gid(ibv_context* context, std::uint8_t number, int index, ibv_gid* gid) {
  const PretendedVerbsPort* port = port_of(context, number);
  if (port == nullptr || index >= port->gids_in_table) return EIO;
  std::memset(gid->raw, 0, sizeof gid->raw);
  if (const auto known = port->gids.find(index); known != port->gids.end())
    std::memcpy(gid->raw, known->second.data(), sizeof gid->raw);
  return 0;
}

// The loader wants these too, which detection does not call.
#define TOMBOLO_NOT_CALLED(name)                \
  int pretended_##name() __asm__("ibv_" #name); \
  int pretended_##name() {                      \
    return ENOSYS;                              \
  }
TOMBOLO_NOT_CALLED(get_async_event)
TOMBOLO_NOT_CALLED(ack_async_event)
TOMBOLO_NOT_CALLED(event_type_str)
TOMBOLO_NOT_CALLED(wc_status_str)
TOMBOLO_NOT_CALLED(alloc_pd)
TOMBOLO_NOT_CALLED(dealloc_pd)
TOMBOLO_NOT_CALLED(reg_mr)
TOMBOLO_NOT_CALLED(dereg_mr)
TOMBOLO_NOT_CALLED(create_comp_channel)
TOMBOLO_NOT_CALLED(destroy_comp_channel)
TOMBOLO_NOT_CALLED(create_cq)
TOMBOLO_NOT_CALLED(destroy_cq)
TOMBOLO_NOT_CALLED(get_cq_event)
TOMBOLO_NOT_CALLED(ack_cq_events)
TOMBOLO_NOT_CALLED(create_qp)
TOMBOLO_NOT_CALLED(modify_qp)
TOMBOLO_NOT_CALLED(destroy_qp)
#undef TOMBOLO_NOT_CALLED

}  // extern "C"

}  // namespace tombolo::topology::test
