#include "transport/ucx/worker.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/error.h"

namespace tombolo::transport::ucx {
namespace {

// Rounds of progress per call, because one round may skip a transport, or leave a batch for the next.
constexpr int kTurns = 4;

}  // namespace

Worker::Worker(std::shared_ptr<Context> context) : context_(std::move(context)) {
  ucp_worker_params_t wanted{};
  wanted.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  wanted.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  wanted.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
  if (const auto status = ucx().worker_create(context_->handle(), &wanted, &worker_); status != UCS_OK)
    fail(Cause::kSystem, "make a worker of UCX: {}", ucx().status_string(status));
  if (const auto status = ucx().worker_get_efd(worker_, &descriptor_); status != UCS_OK) {
    ucx().worker_destroy(worker_);
    fail(Cause::kUnsupported, "wait for a worker of UCX: {}", ucx().status_string(status));
  }
}

Worker::~Worker() {
  if (context_->is_copy()) return;
  if (endpoint_ != nullptr) {
    // Forces the endpoint closed, because UCX aborts the process where a worker with requests is destroyed.
    // UCX 1.13 also aborts it where the worker is progressed after this while the peer resets the connection;
    // so what the close still waits for ends with the worker.
    ucp_request_param_t force{};
    force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    if (void* const request = ucx().ep_close_nbx(endpoint_, &force); UCS_PTR_IS_PTR(request))
      ucx().request_free(request);
  }
  ucx().worker_destroy(worker_);
}

std::vector<std::byte> Worker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  if (const auto status = ucx().worker_get_address(worker_, &address, &length); status != UCS_OK)
    fail(Cause::kSystem, "ask UCX for a worker's address: {}", ucx().status_string(status));
  const auto* begin = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(begin, begin + length);
  ucx().worker_release_address(worker_, address);
  return copy;
}

void Worker::connect(std::span<const std::byte> address) {
  ucp_ep_params_t wanted{};
  wanted.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  wanted.address = reinterpret_cast<const ucp_address_t*>(address.data());
  wanted.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  wanted.err_handler.arg = this;
  wanted.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
    static_cast<Worker*>(self)->trouble_ = status;
  };
  if (const auto status = ucx().ep_create(worker_, &wanted, &endpoint_); status != UCS_OK) {
    endpoint_ = nullptr;
    fail(Cause::kUnsupported, "UCX finds no way to the peer: {}", ucx().status_string(status));
  }
}

std::string Worker::lanes() const {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = ::open_memstream(&text, &size);
  if (file == nullptr) return {};
  ucx().ep_print_info(endpoint_, file);
  std::fclose(file);
  const std::unique_ptr<char, decltype(&std::free)> owned(text, std::free);
  // The lines to parse have the form "# lane[0]:  2:posix/memory.0 md[2] -> ...".
  std::istringstream lines(std::string(text, size));
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    const auto lane = line.find("lane[");
    const auto slash = line.find('/', lane);
    if (lane == std::string::npos || slash == std::string::npos) continue;
    const auto begin = line.find_last_of(": ", slash) + 1;
    const std::string name = line.substr(begin, line.find_first_of(". ", slash) - begin);
    if (all.find(name) == std::string::npos) all += (all.empty() ? "" : ", ") + name;
  }
  return all;
}

bool Worker::progress() noexcept {
  bool moved = false;
  for (int turn = 0; turn < kTurns && ucx().worker_progress(worker_) != 0; ++turn) moved = true;
  return moved;
}

bool Worker::arm() const noexcept {
  return ucx().worker_arm(worker_) == UCS_OK;
}

}  // namespace tombolo::transport::ucx
