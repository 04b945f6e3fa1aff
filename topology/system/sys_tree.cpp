#include "topology/system/sys_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>

#include "topology/system/tree_file.h"

namespace tombolo::topology {
namespace {

namespace fs = std::filesystem;

/// Whether it is a virtual function. A guest sees one without its physical function, and must decide by the
/// driver or the device's number.
bool is_virtual_function(const SysTree& tree, const std::string& path, std::string_view driver) {
  constexpr std::array<std::string_view, 6> kDrivers{"iavf",  "i40evf",  "ixgbevf",
                                                     "igbvf", "cxgb4vf", "fm10kvf"};
  if (std::find(kDrivers.begin(), kDrivers.end(), driver) != kDrivers.end()) return true;
  constexpr std::int64_t kMellanox = 0x15b3;
  // The numbers are those of ConnectX-2 and 3, then 4, 4 Lx, 5, 5 Ex, 6, and all later ones.
  constexpr std::array<std::int64_t, 8> kDevices{0x1002, 0x1004, 0x1014, 0x1016,
                                                 0x1018, 0x101a, 0x101c, 0x101e};
  auto device = tree.integer(path + "/device");
  return device && tree.integer(path + "/vendor") == kMellanox &&
         std::find(kDevices.begin(), kDevices.end(), *device) != kDevices.end();
}

}  // namespace

SysTree::SysTree(const fs::path& root) {
  std::error_code ignored;
  root_ = fs::weakly_canonical(root, ignored);
  if (ignored) root_ = root;
  if (fs::is_regular_file(root_, ignored))
    file_ = std::make_shared<const TreeFile>(TreeFile::load(root_.string()));
}

fs::path SysTree::below(std::string_view path) const {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  return root_ / path;
}

bool SysTree::exists(std::string_view path) const {
  if (file_) return file_->exists(path);
  std::error_code ignored;
  return fs::exists(below(path), ignored);
}

std::vector<std::string> SysTree::names(std::string_view path) const {
  if (file_) return file_->names(path);
  std::vector<std::string> all;
  std::error_code error;
  for (fs::directory_iterator entry(below(path), error), end; !error && entry != end;
       entry.increment(error)) {
    all.push_back(entry->path().filename().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::optional<std::string> SysTree::read(std::string_view path, std::size_t most) const {
  std::string text;
  if (file_) {
    auto recorded = file_->text(path);
    if (!recorded) return std::nullopt;
    text = std::move(*recorded).substr(0, most);
  } else {
    int fd = ::open(below(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return std::nullopt;
    struct stat status {};
    std::array<char, 4096> page;
    ssize_t got = -1;
    if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
      do {
        got = ::read(fd, page.data(), std::min(page.size(), most - text.size()));
        if (got > 0) text.append(page.data(), static_cast<std::size_t>(got));
      } while (got > 0 && most > page.size() && text.size() < most);  // one read returns a whole file of /sys
    }
    ::close(fd);
    if (got < 0 && text.empty()) return std::nullopt;
  }
  for (char& c : text) {
    auto code = static_cast<unsigned char>(c);
    bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\0';
    if ((code < ' ' && !blank) || code >= 0x7f) c = '?';
  }
  return text;
}

std::optional<std::string> SysTree::text(std::string_view path) const {
  constexpr std::size_t kPage = 4096;
  auto found = read(path, kPage);
  if (!found) return std::nullopt;
  std::string& text = *found;
  auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\0'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' && c != '\n') c = '?';
  }
  return found;
}

std::vector<std::string> SysTree::lines(std::string_view path) const {
  constexpr std::size_t kMost = 1U << 20;
  const std::string content = read(path, kMost).value_or("");
  std::vector<std::string> all;
  std::string_view rest = content;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    all.emplace_back(line);
  }
  return all;
}

std::optional<std::int64_t> SysTree::integer(std::string_view path) const {
  auto content = text(path);
  if (!content) return std::nullopt;
  std::string_view digits = *content;
  int base = 10;
  if (digits.starts_with("0x")) {
    digits.remove_prefix(2);
    base = 16;
  }
  std::int64_t value = 0;
  auto [rest, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (status != std::errc{} || rest != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::string SysTree::uevent(std::string_view path, std::string_view key) const {
  std::string content = text(path).value_or("");
  std::string_view rest = content;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == '=') {
      return std::string(line.substr(key.size() + 1));
    }
  }
  return {};
}

std::string SysTree::link_name(std::string_view path) const {
  if (file_) return fs::path(file_->link(path).value_or("")).filename().string();
  std::error_code error;
  auto target = fs::read_symlink(below(path), error);
  return error ? std::string() : target.filename().string();
}

std::string SysTree::real_path(std::string_view path) const {
  if (file_) return file_->real_path(path).value_or("");
  std::error_code error;
  auto real = fs::canonical(below(path), error);
  if (error) return {};
  auto relative = real.lexically_relative(root_);
  if (relative.empty() || *relative.begin() == "..") return {};
  return std::string(1, '/').append(relative.string());  // not "/" + ...: gcc 12 warns falsely
}

bool is_pci_address(std::string_view name) {
  constexpr std::string_view kShape = "xxxx:xx:xx.x";
  // A domain above 0xffff (VMD) has more digits.
  if (name.size() < kShape.size()) return false;
  std::string_view tail = name.substr(name.size() - kShape.size());
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    bool hex = std::isxdigit(static_cast<unsigned char>(tail[i])) != 0;
    if (kShape[i] == 'x' ? !hex : tail[i] != kShape[i]) return false;
  }
  return true;
}

PciFacts read_pci_facts(const SysTree& tree, const std::string& device) {
  PciFacts facts;
  facts.driver = tree.link_name(device + "/driver");
  // Goes up to the PCI function: a virtio NIC is a child of one, most others are one.
  for (fs::path at = tree.real_path(device); at.has_relative_path(); at = at.parent_path()) {
    std::string path = at.string();
    if (!facts.numa_node) {
      if (auto node = tree.integer(path + "/numa_node"); node && *node >= 0 && *node < 4096) {
        facts.numa_node = static_cast<int>(*node);
      }
    }
    if (is_pci_address(at.filename().string())) {
      facts.path = path;
      facts.physical_function = tree.link_name(path + "/physfn");
      facts.virtual_function =
          !facts.physical_function.empty() || is_virtual_function(tree, path, facts.driver);
      break;
    }
  }
  return facts;
}

}  // namespace tombolo::topology
