// The unique id: the address of a store and the secret that admits to it, for ranks that no launcher's
// variables describe.
#pragma once

#include <array>
#include <memory>

#include "collectives/options.h"

namespace tombolo::collectives {

/// An id must reach every rank unchanged, by a way that others cannot read.
using UniqueId = std::array<char, 128>;

/// Opens a store in this process: on TOMBOLO_ADDRESS, or on rendezvous_address(). It stays until
/// close_store(), or the end of the process. Any thread. Throws as StoreServer does.
UniqueId make_unique_id(const transport::Secret& secret = transport::Secret::random());

/// The store of `id` where this process keeps it, else null.
std::shared_ptr<StoreServer> find_store(const UniqueId& id);
/// Drops this process's own reference to a store from find_store(); the store ends with its last owner.
void close_store(const std::shared_ptr<StoreServer>& store);

/// The options for Communicator::create() on the store of `id`; no launcher's variables are read. Throws
/// kInvalidUsage where the bytes are no unique id.
Options options_from(const UniqueId& id, int rank, int size);
/// The same for a rank that joins a communicator which grows: it meets the members where nothing else of
/// theirs is, and their connections are told apart from those that they have.
Options options_to_join(const UniqueId& id, int rank, int size);

}  // namespace tombolo::collectives
