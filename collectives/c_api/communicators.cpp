// The C interface's communicators: made, asked, and ended.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/c_api/failures.h"
#include "collectives/c_api/group.h"
#include "collectives/c_api/handles.h"

using namespace tombolo;
using namespace tombolo::c_api;

namespace {

void apply(const tomboloConfig_t& given, const char* function, collectives::Options& options) {
  if (given.magic != TOMBOLO_CONFIG_MAGIC) {
    refuse("{}: the configuration was not initialised with TOMBOLO_CONFIG_INITIALIZER", function);
  }
  if (given.size != sizeof(tomboloConfig_t)) {
    refuse("{}: the configuration has {} bytes (header version {}), this library's has {} (version {})",
           function, given.size, given.version, sizeof(tomboloConfig_t), TOMBOLO_VERSION_CODE);
  }
  if (given.blocking != TOMBOLO_CONFIG_UNDEF_INT && given.blocking != 1) {
    refuse("{}: config.blocking={}: calls block, only 1 is possible", function, given.blocking);
  }
  if (given.deadline != TOMBOLO_CONFIG_UNDEF_SECONDS) {
    options.deadline = collectives::deadline_from(given.deadline, "config.deadline");
  }
  if (given.algorithm != TOMBOLO_CONFIG_UNDEF_PTR) options.algorithm = given.algorithm;
  if (given.routing != TOMBOLO_CONFIG_UNDEF_PTR) {
    options.routing = collectives::routing_from_name(given.routing, "config.routing");
  }
  if (given.progress != TOMBOLO_CONFIG_UNDEF_PTR) {
    options.progress = collectives::progress_from_name(given.progress, "config.progress");
  }
}

static_assert(sizeof(tomboloUniqueId) == sizeof(collectives::UniqueId));

tomboloResult_t init(const char* function, tomboloComm_t* comm, int ranks, const tomboloUniqueId& given,
                     int rank, const tomboloConfig_t* config) noexcept {
  return guarded([&] {
    require_pointer(comm, function, "comm");
    *comm = nullptr;
    refuse_in_group(function);
    if (ranks < 1 || rank < 0 || rank >= ranks) {
      refuse("{}: rank {} of {}: ranks go from 0 to nranks - 1", function, rank, ranks);
    }
    collectives::UniqueId id;
    std::memcpy(id.data(), given.internal, id.size());
    auto options = collectives::options_from(id, rank, ranks);
    if (config != nullptr) apply(*config, function, options);
    auto member = std::make_shared<Member>();
    member->server = collectives::find_store(id);
    member->communicator = collectives::Communicator::create(options);
    *comm = handles().add(std::move(member));
  });
}

}  // namespace

tomboloResult_t tomboloGetUniqueId(tomboloUniqueId* id) {
  return guarded([&] {
    require_pointer(id, "tomboloGetUniqueId", "id");
    const auto made = collectives::make_unique_id();
    std::memcpy(id->internal, made.data(), made.size());
  });
}

tomboloResult_t tomboloCommInitRank(tomboloComm_t* comm, int nranks, tomboloUniqueId id, int rank) {
  return init(__func__, comm, nranks, id, rank, nullptr);
}

tomboloResult_t tomboloCommInitRankConfig(tomboloComm_t* comm, int nranks, tomboloUniqueId id, int rank,
                                          const tomboloConfig_t* config) {
  return init(__func__, comm, nranks, id, rank, config);
}

tomboloResult_t tomboloCommInitFromEnvironment(tomboloComm_t* comm) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(comm, function, "comm");
    *comm = nullptr;
    refuse_in_group(function);
    auto member = std::make_shared<Member>();
    member->communicator = collectives::Communicator::create(collectives::Options::from_environment());
    *comm = handles().add(std::move(member));
  });
}

tomboloResult_t tomboloCommSplit(tomboloComm_t comm, int color, int key, tomboloComm_t* newcomm) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(newcomm, function, "newcomm");
    *newcomm = nullptr;
    const auto parent = member_of(comm, function);
    refuse_in_group(function);
    auto member = std::make_shared<Member>();
    member->server = parent->server;
    member->communicator = parent->communicator->split(color, key);
    if (member->communicator) *newcomm = handles().add(std::move(member));
  });
}

tomboloResult_t tomboloCommShrink(tomboloComm_t comm, const int* excludeRanksList, int excludeRanksCount,
                                  tomboloComm_t* newcomm, int shrinkFlags) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(newcomm, function, "newcomm");
    *newcomm = nullptr;
    const auto parent = member_of(comm, function);
    refuse_in_group(function);
    refuse_in_callback(*parent, function);
    if (shrinkFlags != TOMBOLO_SHRINK_DEFAULT && shrinkFlags != TOMBOLO_SHRINK_ABORT)
      refuse("{}: shrinkFlags={}: expected TOMBOLO_SHRINK_DEFAULT or TOMBOLO_SHRINK_ABORT", function,
             shrinkFlags);
    if (excludeRanksCount < 0) refuse("{}: excludeRanksCount={}", function, excludeRanksCount);
    if (excludeRanksCount > 0) require_pointer(excludeRanksList, function, "excludeRanksList");
    const std::vector<int> excluded(excludeRanksList, excludeRanksList + excludeRanksCount);
    const bool failed = parent->communicator->failure_cause().has_value();
    if (shrinkFlags == TOMBOLO_SHRINK_DEFAULT) {
      if (excluded.empty()) refuse("{}: without TOMBOLO_SHRINK_ABORT it needs a list of ranks", function);
      if (failed)
        fail(Cause::kInvalidUsage, "{}: the communicator has failed: TOMBOLO_SHRINK_ABORT", function);
    } else if (!failed) {
      parent->communicator->abort("tomboloCommShrink was called with TOMBOLO_SHRINK_ABORT");
    }
    auto member = std::make_shared<Member>();
    member->server = parent->server;
    member->communicator = parent->communicator->shrink(excluded);
    *newcomm = handles().add(std::move(member));
  });
}

tomboloResult_t tomboloCommFinalize(tomboloComm_t comm) {
  const char* const function = __func__;
  return guarded([&] {
    const auto member = member_of(comm, function);
    refuse_in_group(function);
    member->communicator->finalize();
  });
}

tomboloResult_t tomboloCommDestroy(tomboloComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) return;
    if (const auto member = handles().find(comm)) refuse_in_callback(*member, "tomboloCommDestroy");
    const auto member = handles().remove(comm);
    if (!member) refuse("tomboloCommDestroy: there is no such communicator (was it destroyed before?)");
    works().remove_if([&](const StartedCall& one) { return one.member.lock() == member; });
    if (member->server) collectives::close_store(member->server);
  });
}

tomboloResult_t tomboloCommAbort(tomboloComm_t comm) {
  const char* const function = __func__;
  return guarded([&] { member_of(comm, function)->communicator->abort("tomboloCommAbort was called"); });
}

tomboloResult_t tomboloCommGetAsyncError(tomboloComm_t comm, tomboloResult_t* asyncError) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(asyncError, function, "asyncError");
    const auto cause = member_of(comm, function)->communicator->failure_cause();
    *asyncError = cause ? result_of(*cause) : tomboloSuccess;
  });
}

tomboloResult_t tomboloCommCount(tomboloComm_t comm, int* count) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(count, function, "count");
    *count = member_of(comm, function)->communicator->size();
  });
}

tomboloResult_t tomboloCommUserRank(tomboloComm_t comm, int* rank) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(rank, function, "rank");
    *rank = member_of(comm, function)->communicator->rank();
  });
}

tomboloResult_t tomboloCommLastAlgorithm(tomboloComm_t comm, const char** name) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(name, function, "name");
    const auto member = member_of(comm, function);
    member->last_algorithm = member->communicator->last_algorithm();
    *name = member->last_algorithm.c_str();
  });
}
