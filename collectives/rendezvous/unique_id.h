// How ranks meet without a launcher: by bytes that say where the store is and hold the secret that lets in.
#pragma once

#include <array>
#include <memory>

#include "collectives/options.h"

namespace tombolo::collectives {

/// To be handed to every rank unchanged, by a way that others cannot read.
using UniqueId = std::array<char, 128>;

/// Opens a store in this process: on TOMBOLO_ADDRESS, or on rendezvous_address(). It stays until
/// close_store(), or the end of the process. Any thread. Throws as StoreServer does.
UniqueId make_unique_id();

/// The store of `id` where this process keeps it, else null.
std::shared_ptr<StoreServer> find_store(const UniqueId& id);
/// Lets go of a store from find_store(): it ends with its last owner.
void close_store(const std::shared_ptr<StoreServer>& store);

/// For Communicator::create(); no launcher's variables are read. Throws kInvalidUsage where the id is none.
Options options_from(const UniqueId& id, int rank, int size);

}  // namespace tombolo::collectives
