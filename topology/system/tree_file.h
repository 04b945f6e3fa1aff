// A recorded /sys as one text file, which fits into a bug report, and which tests read in place of a machine.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo::topology {

/// A tree of files, folders and links in memory. The text has one entry per line:
///
///     [/sys/devices/pci0000:16/0000:17:00.0]        what follows lies below this folder
///     numa_node = 0                                 a file and its text, in which \n is a new line
///     driver -> /sys/bus/pci/drivers/mlx5_core      a symbolic link, absolute or relative as in /sys
///     sriov/                                        an empty folder
///     # a comment
///
/// Folders above an entry need not be named. A link may lead nowhere, or in a circle, as on a real machine.
class TreeFile {
 public:
  /// Throws kInvalidUsage naming `source` and line: a line of another form, a path with "..", an entry that
  /// occurs twice, one below a file or a link,
  /// and one with a path, or a link's target, of more than 4096 bytes.
  static TreeFile parse(std::string_view text, const std::string& source);
  /// Throws kInvalidUsage also where the file cannot be read or has more than 16 MiB.
  static TreeFile load(const std::string& path);

  bool exists(std::string_view path) const;
  /// Names in a folder, sorted; empty where there is none.
  std::vector<std::string> names(std::string_view path) const;
  /// A file's text; nothing where there is no file.
  std::optional<std::string> text(std::string_view path) const;
  /// The target of a symbolic link as it is written; nothing where it is no link.
  std::optional<std::string> link(std::string_view path) const;
  /// The path with all links followed; nothing where it leads nowhere.
  std::optional<std::string> real_path(std::string_view path) const;

 private:
  enum class Kind { kFolder, kFile, kLink };
  struct Node {
    Kind kind = Kind::kFolder;
    std::string text;  ///< of a file; the target of a link
    std::set<std::string> names;
  };
  std::string add(const std::string& path, Node node);
  /// `last`: whether a link at the end is followed too.
  std::optional<std::string> resolve(std::string_view path, bool last) const;
  const Node* find(std::string_view path, bool last) const;

  std::map<std::string, Node, std::less<>> nodes_{{"", {}}};  ///< by path without a slash at the end
};

}  // namespace tombolo::topology
