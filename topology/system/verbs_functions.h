// libibverbs, loaded at run time: the functions that its library exports. Those that its header defines
// inline (post, poll, arm) call through the device's own table and need no symbol.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "base/dynamic_library.h"

namespace tombolo::topology {

/// The functions, by the library's names without "ibv_". All are set once it is loaded, except those marked
/// optional.
struct VerbsFunctions {
  explicit VerbsFunctions(DynamicLibrary opened) : library(std::move(opened)) {}

  DynamicLibrary library;
  ibv_device** (*get_device_list)(int*) = nullptr;
  void (*free_device_list)(ibv_device**) = nullptr;
  const char* (*get_device_name)(ibv_device*) = nullptr;
  ibv_context* (*open_device)(ibv_device*) = nullptr;
  int (*close_device)(ibv_context*) = nullptr;
  int (*query_device)(ibv_context*, ibv_device_attr*) = nullptr;
  // The exported function fills in only the first members of the structure, those before port_cap_flags2.
  int (*query_port)(ibv_context*, std::uint8_t, ibv_port_attr*) = nullptr;
  int (*query_gid)(ibv_context*, std::uint8_t, int, ibv_gid*) = nullptr;
  int (*get_async_event)(ibv_context*, ibv_async_event*) = nullptr;
  void (*ack_async_event)(ibv_async_event*) = nullptr;
  const char* (*event_type_str)(ibv_event_type) = nullptr;
  const char* (*wc_status_str)(ibv_wc_status) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int,
                           int) = nullptr;  ///< optional
  ibv_comp_channel* (*create_comp_channel)(ibv_context*) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel*) = nullptr;
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int) = nullptr;
  int (*destroy_cq)(ibv_cq*) = nullptr;
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**) = nullptr;
  void (*ack_cq_events)(ibv_cq*, unsigned) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*) = nullptr;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int) = nullptr;
  int (*destroy_qp)(ibv_qp*) = nullptr;
  int (*fork_init)() = nullptr;  ///< optional
  /// What ibv_query_gid_table() calls; optional.
  ssize_t (*query_gid_table)(ibv_context*, ibv_gid_entry*, std::size_t, std::uint32_t, std::size_t) = nullptr;

  /// Loads the library; null where it is absent or lacks a function; `*problem` then says why.
  static std::shared_ptr<const VerbsFunctions> load(std::string* problem);
};

}  // namespace tombolo::topology
