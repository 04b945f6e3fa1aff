#include "transport/ucx/context.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace tombolo::transport::ucx {
namespace {

/// Whether a list as in UCX_TLS, which may be empty, allows UCX its own tcp.
bool lets_tcp(std::string_view transports) {
  const bool named = transports.find("tcp") != transports.npos;
  if (transports.empty() || transports.starts_with('^')) return !named;
  return named || transports.find("all") != transports.npos;
}

}  // namespace

Context::Context(std::shared_ptr<const UcxFunctions> functions, const std::string& devices,
                 const std::string& transports)
    : functions_(std::move(functions)) {
  const auto check = [&](ucs_status_t status, std::string_view what) {
    if (status == UCS_OK) return;
    fail(Cause::kUnsupported, "{} (devices: {}; transports: {}): {}", what,
         devices.empty() ? "UCX's choice" : devices, transports.empty() ? "UCX's choice" : transports,
         ucx().status_string(status));
  };
  ucp_config_t* read = nullptr;
  check(ucx().config_read(nullptr, nullptr, &read), "UCX cannot read its environment");
  const std::unique_ptr<ucp_config_t, decltype(ucx().config_release)> config(read, ucx().config_release);
  if (!devices.empty())
    check(ucx().config_modify(config.get(), "NET_DEVICES", devices.c_str()), "UCX refuses the devices");
  if (!transports.empty())
    check(ucx().config_modify(config.get(), "TLS", transports.c_str()), "UCX refuses the transports");
  // Over tcp UCX 1.13 aborts the process where the peer dies in the middle of a zero-copy send. Where it
  // copies, the send only fails.
  const char* const from_environment = std::getenv("UCX_TLS");
  if (lets_tcp(!transports.empty()           ? transports
               : from_environment != nullptr ? from_environment
                                             : "") &&
      std::getenv("UCX_ZCOPY_THRESH") == nullptr) {
    check(ucx().config_modify(config.get(), "ZCOPY_THRESH", "inf"), "UCX refuses to copy");
  }
  ucp_params_t wanted{};
  wanted.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  wanted.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  wanted.mt_workers_shared = 1;
  wanted.estimated_num_eps = 1;
  check(ucx().init_version(UCP_API_MAJOR, UCP_API_MINOR, &wanted, config.get(), &context_),
        "UCX cannot be opened");
  ucp_context_attr_t facts{};
  facts.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  if (ucx().context_query(context_, &facts) == UCS_OK) memory_types_ = facts.memory_types;
}

Context::~Context() {
  if (context_ != nullptr && !is_copy()) ucx().cleanup(context_);
}

UcxMemory::UcxMemory(std::shared_ptr<Context> context, std::span<std::byte> range, MemoryKind kind)
    : context_(std::move(context)),
      range_(range),
      type_(kind == MemoryKind::kCuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST) {
  if (!context_->carries(type_)) {
    fail(Cause::kUnsupported,
         "register {} bytes of CUDA memory: this UCX carries host memory only, for it has no module "
         "libuct_cuda",
         range.size());
  }
  if (range.empty()) return;
  ucp_mem_map_params_t wanted{};
  wanted.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  wanted.address = range.data();
  wanted.length = range.size();
  wanted.memory_type = type_;
  if (const auto status = context_->ucx().mem_map(context_->handle(), &wanted, &handle_); status != UCS_OK) {
    fail(Cause::kSystem, "register {} bytes with UCX: {}", range.size(),
         context_->ucx().status_string(status));
  }
}

UcxMemory::~UcxMemory() {
  if (handle_ != nullptr && !context_->is_copy()) context_->ucx().mem_unmap(context_->handle(), handle_);
}

}  // namespace tombolo::transport::ucx
