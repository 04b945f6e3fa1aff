#include "trainer/checkpoint/write_shard.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

// A signal that ends the process is not kept waiting for longer than one of these takes.
constexpr std::size_t kMostPerWrite = std::size_t{8} << 20;

/// The first failure of a row of steps, each of which is only taken where all before it went well.
class Steps {
 public:
  template <typename Step>
  void then(std::string_view what, const std::string& path, Step step) {
    if (!failure_.empty()) return;
    const int error = step();
    if (error != 0) failure_ = fmt::format("{} {}: {} (errno {})", what, path, errno_text(error), error);
  }
  bool fine() const noexcept { return failure_.empty(); }
  const std::string& failure() const noexcept { return failure_; }

 private:
  std::string failure_;
};

int write_all(FileSystem& files, int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::size_t wrote = 0;
    const int error = files.write(descriptor, bytes.first(std::min(bytes.size(), kMostPerWrite)), wrote);
    if (error != 0) return error;
    if (wrote == 0) return EIO;  // a full disk says so; this would go on for ever
    bytes = bytes.subspan(wrote);
  }
  return 0;
}

/// The folder itself, where nothing is in it. A folder that another rank still needs is no failure.
void remove_if_empty(Steps& steps, FileSystem& files, const std::string& folder) {
  steps.then("removing", folder, [&] {
    const int error = files.remove_folder(folder);
    return error == ENOTEMPTY ? 0 : error;
  });
}

}  // namespace

std::string write_shard(FileSystem& files, const std::string& root, ShardHeader header,
                        std::span<const float> data) {
  header.checksums = chunk_checksums(data, header.chunk_floats);
  const std::string head = encode_shard_head(header);
  const std::string folder = root + "/" + folder_name(header.id);
  const std::string path = folder + "/" + shard_name(header.shard);
  const std::string partial = folder + "/" + partial_name(header.shard);
  int descriptor = -1;
  Steps steps;
  steps.then("making the folder", folder, [&] { return files.make_folder(folder); });
  steps.then("creating", partial, [&] { return files.create(partial, descriptor); });
  steps.then("writing", partial,
             [&] { return write_all(files, descriptor, std::as_bytes(std::span(head))); });
  steps.then("writing", partial, [&] { return write_all(files, descriptor, std::as_bytes(data)); });
  steps.then("syncing", partial, [&] { return files.sync(descriptor); });
  if (descriptor >= 0) {
    const int error = files.close(descriptor);
    steps.then("closing", partial, [&] { return error; });
  }
  steps.then("renaming", partial, [&] { return files.rename(partial, path); });
  steps.then("syncing the folder", folder, [&] { return files.sync_folder(folder); });
  steps.then("syncing the folder", root, [&] { return files.sync_folder(root); });
  if (!steps.fine()) remove_shard(files, root, header.id, header.shard);
  return steps.failure();
}

std::string remove_shard(FileSystem& files, const std::string& root, const CheckpointId& id,
                         const ShardName& shard) {
  const std::string folder = root + "/" + folder_name(id);
  Steps steps;
  for (const std::string& name : {shard_name(shard), partial_name(shard)})
    steps.then("removing", folder + "/" + name, [&] { return files.remove(folder + "/" + name); });
  remove_if_empty(steps, files, folder);
  return steps.failure();
}

std::string remove_checkpoint(FileSystem& files, const std::string& root, const CheckpointId& id) {
  const std::string folder = root + "/" + folder_name(id);
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (parse_shard_name(name) || is_partial_name(name)) paths.push_back(entry->path().string());
  }
  if (error) {
    // Another rank may have removed it meanwhile.
    if (error.value() == ENOENT) return {};
    return fmt::format("reading the folder {}: {}", folder, error.message());
  }
  Steps steps;
  for (const std::string& path : paths) steps.then("removing", path, [&] { return files.remove(path); });
  remove_if_empty(steps, files, folder);
  return steps.failure();
}

}  // namespace tombolo::trainer
