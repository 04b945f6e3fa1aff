#include "topology/system/verbs_functions.h"

namespace tombolo::topology {
namespace {

bool find_all(VerbsFunctions& all) {
  const DynamicLibrary& library = all.library;
  library.find("ibv_reg_dmabuf_mr", all.reg_dmabuf_mr);  // since rdma-core 34
  library.find("ibv_fork_init", all.fork_init);
  library.find("_ibv_query_gid_table", all.query_gid_table);  // since rdma-core 32
  return library.find("ibv_get_device_list", all.get_device_list) &&
         library.find("ibv_free_device_list", all.free_device_list) &&
         library.find("ibv_get_device_name", all.get_device_name) &&
         library.find("ibv_open_device", all.open_device) &&
         library.find("ibv_close_device", all.close_device) &&
         library.find("ibv_query_device", all.query_device) &&
         library.find("ibv_query_port", all.query_port) && library.find("ibv_query_gid", all.query_gid) &&
         library.find("ibv_get_async_event", all.get_async_event) &&
         library.find("ibv_ack_async_event", all.ack_async_event) &&
         library.find("ibv_event_type_str", all.event_type_str) &&
         library.find("ibv_wc_status_str", all.wc_status_str) && library.find("ibv_alloc_pd", all.alloc_pd) &&
         library.find("ibv_dealloc_pd", all.dealloc_pd) && library.find("ibv_reg_mr", all.reg_mr) &&
         library.find("ibv_dereg_mr", all.dereg_mr) &&
         library.find("ibv_create_comp_channel", all.create_comp_channel) &&
         library.find("ibv_destroy_comp_channel", all.destroy_comp_channel) &&
         library.find("ibv_create_cq", all.create_cq) && library.find("ibv_destroy_cq", all.destroy_cq) &&
         library.find("ibv_get_cq_event", all.get_cq_event) &&
         library.find("ibv_ack_cq_events", all.ack_cq_events) &&
         library.find("ibv_create_qp", all.create_qp) && library.find("ibv_modify_qp", all.modify_qp) &&
         library.find("ibv_destroy_qp", all.destroy_qp);
}

}  // namespace

std::shared_ptr<const VerbsFunctions> VerbsFunctions::load(std::string* problem) {
  auto library = DynamicLibrary::open({"libibverbs.so.1"}, problem);
  if (!library) return nullptr;
  auto functions = std::make_shared<VerbsFunctions>(*std::move(library));
  if (find_all(*functions)) return functions;
  if (problem != nullptr) *problem = "libibverbs.so.1 lacks functions that every version since 1.1 has";
  return nullptr;
}

}  // namespace tombolo::topology
