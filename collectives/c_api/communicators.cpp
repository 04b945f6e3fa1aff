// The C interface's communicators: made, asked, and ended.
#include <cstring>
#include <memory>
#include <optional>
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

collectives::UniqueId id_of(const tomboloUniqueId& given) {
  collectives::UniqueId id;
  std::memcpy(id.data(), given.internal, id.size());
  return id;
}

/// With the store of the id, where this process keeps it.
template <typename Make>
std::shared_ptr<Member> member_at(const collectives::UniqueId& id, const Make& make) {
  auto member = std::make_shared<Member>();
  if (auto server = collectives::find_store(id)) member->servers.push_back(std::move(server));
  member->communicator = make();
  return member;
}

/// Of ranks that come by a unique id; `options_by` makes their options of it.
tomboloResult_t init(const char* function, tomboloComm_t* comm, int ranks, const tomboloUniqueId& given,
                     int rank, const tomboloConfig_t* config,
                     collectives::Options (*options_by)(const collectives::UniqueId&, int,
                                                        int) = collectives::options_from) noexcept {
  return guarded([&] {
    require_pointer(comm, function, "comm");
    *comm = nullptr;
    refuse_in_group(function);
    if (ranks < 1 || rank < 0 || rank >= ranks) {
      refuse("{}: rank {} of {}: ranks go from 0 to nranks - 1", function, rank, ranks);
    }
    const collectives::UniqueId id = id_of(given);
    auto options = options_by(id, rank, ranks);
    if (config != nullptr) apply(*config, function, options);
    *comm = handles().add(member_at(id, [&] { return collectives::Communicator::create(options); }));
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
    member->servers = parent->servers;
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
    member->servers = parent->servers;
    member->communicator = parent->communicator->shrink(excluded);
    *newcomm = handles().add(std::move(member));
  });
}

tomboloResult_t tomboloCommGetUniqueId(tomboloComm_t comm, tomboloUniqueId* id) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(id, function, "id");
    const auto member = member_of(comm, function);
    refuse_in_callback(*member, function);
    const auto made = collectives::make_unique_id(member->communicator->secret_for_new_ranks());
    member->servers.push_back(collectives::find_store(made));
    std::memcpy(id->internal, made.data(), made.size());
  });
}

tomboloResult_t tomboloCommGrow(tomboloComm_t comm, int nranks, const tomboloUniqueId* id, int rank,
                                tomboloComm_t* newcomm, const tomboloConfig_t* config) {
  const char* const function = __func__;
  if (comm == nullptr) {
    const tomboloResult_t given = guarded([&] { require_pointer(id, function, "the new rank's id"); });
    if (given != tomboloSuccess) return given;
    return init(function, newcomm, nranks, *id, rank, config, collectives::options_to_join);
  }
  return guarded([&] {
    require_pointer(newcomm, function, "newcomm");
    *newcomm = nullptr;
    const auto parent = member_of(comm, function);
    refuse_in_group(function);
    refuse_in_callback(*parent, function);
    if (rank != -1) refuse("{}: rank={}: members keep their ranks, and pass -1", function, rank);
    if (config != nullptr) refuse("{}: config: members keep their settings, and pass null", function);
    const auto given = id == nullptr ? std::nullopt : std::optional(id_of(*id));
    *newcomm = handles().add(member_at(given.value_or(collectives::UniqueId{}), [&] {
      return parent->communicator->grow(nranks, given ? &*given : nullptr);
    }));
  });
}

tomboloResult_t tomboloCommSetStream(tomboloComm_t comm, void* stream) {
  const char* const function = __func__;
  return guarded([&] {
    const auto member = member_of(comm, function);
    refuse_in_callback(*member, function);
    member->stream = stream;
  });
}

tomboloResult_t tomboloCommSetDeadline(tomboloComm_t comm, double seconds) {
  const char* const function = __func__;
  return guarded([&] {
    const auto member = member_of(comm, function);
    const Duration deadline = collectives::deadline_from(seconds, "tomboloCommSetDeadline: seconds");
    member->communicator->set_deadline(deadline);
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
    for (const auto& server : member->servers) collectives::close_store(server);
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

tomboloResult_t tomboloCommExplain(tomboloComm_t comm, const char** json) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(json, function, "json");
    const auto member = member_of(comm, function);
    member->explanation = member->communicator->explain();
    *json = member->explanation.c_str();
  });
}

tomboloResult_t tomboloCommSetTuning(tomboloComm_t comm, const char* table) {
  const char* const function = __func__;
  return guarded([&] {
    const auto member = member_of(comm, function);
    refuse_in_group(function);
    member->communicator->set_tuning(table == nullptr ? "" : table);
  });
}
