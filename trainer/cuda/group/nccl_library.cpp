#include "trainer/cuda/group/nccl_library.h"

#include <type_traits>
#include <utility>

#include "trainer/cuda/parameters.h"

namespace tombolo::trainer::cuda {
namespace {

DynamicLibrary open(const std::string& name) {
  std::string problem;
  auto library = DynamicLibrary::open({name.c_str()}, &problem);
  if (!library)
    fail(Cause::kUnsupported,
         "NCCL cannot be loaded: {}; {} names another library, and --reduce engine needs none", problem,
         kNcclLibraryParameter.name);
  return std::move(*library);
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

Cause cause_of(NcclResult result) {
  switch (result) {
    case NcclResult::kCudaError:
    case NcclResult::kSystemError:
      return Cause::kSystem;
    case NcclResult::kInvalidArgument:
    case NcclResult::kInvalidUsage:
      return Cause::kInvalidUsage;
    case NcclResult::kRemoteError:
      return Cause::kRemote;
    case NcclResult::kSuccess:
    case NcclResult::kInternalError:
    case NcclResult::kInProgress:
      break;
  }
  return Cause::kInternal;
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& name) : library_(open(name)) {
  const auto take = [&](const char* symbol, auto*& function) {
    if (!library_.find(symbol, function))
      fail(Cause::kUnsupported, "{} has no function {}: it is not NCCL, or too old ({} or later is needed)",
           name, symbol, version_text(kOldestNccl));
  };
  take("ncclGetVersion", get_version);
  take("ncclGetErrorString", error_text);
  take("ncclGetLastError", last_error);
  check(get_version(&version_), fmt::format("the version of {}", name));
  if (version_ < kOldestNccl)
    fail(Cause::kUnsupported, "{} is version {} of NCCL, but {} or later is needed", name,
         version_text(version_), version_text(kOldestNccl));
  take("ncclGetUniqueId", get_unique_id);
  take("ncclCommInitRankConfig", init_rank);
  take("ncclAllReduce", all_reduce);
  take("ncclCommGetAsyncError", async_error);
  take("ncclCommFinalize", finalize);
  take("ncclCommDestroy", destroy);
  take("ncclCommAbort", abort);
}

std::string NcclLibrary::describe() const {
  return fmt::format("NCCL {} ({})", version_text(version_), library_.name());
}

void NcclLibrary::check(NcclResult result, const std::string& what, NcclCommunicator* communicator) const {
  if (result != NcclResult::kSuccess) failed(result, what, communicator);
}

void NcclLibrary::failed(NcclResult result, const std::string& what, NcclCommunicator* communicator) const {
  const char* words = error_text(result);
  const char* more = last_error(communicator);
  const std::string_view detail = more == nullptr ? "" : more;
  fail(cause_of(result), "{}: NCCL says \"{}\"{}{}", what, words == nullptr ? "nothing" : words,
       detail.empty() ? "" : ": ", detail);
}

}  // namespace tombolo::trainer::cuda
