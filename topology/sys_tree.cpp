#include "topology/sys_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>

namespace tombolo::topology {
namespace {

namespace fs = std::filesystem;

/// "0000:18:00.0"
bool is_pci_address(std::string_view name) {
  constexpr std::string_view kShape = "xxxx:xx:xx.x";
  // A domain above 0xffff has more digits (VMD).
  if (name.size() < kShape.size()) return false;
  std::string_view tail = name.substr(name.size() - kShape.size());
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    bool hex = std::isxdigit(static_cast<unsigned char>(tail[i])) != 0;
    if (kShape[i] == 'x' ? !hex : tail[i] != kShape[i]) return false;
  }
  return true;
}

}  // namespace

SysTree::SysTree(const fs::path& root) {
  std::error_code ignored;
  root_ = fs::weakly_canonical(root, ignored);
  if (ignored) root_ = root;
}

fs::path SysTree::below(std::string_view path) const {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  return root_ / path;
}

bool SysTree::exists(std::string_view path) const {
  std::error_code ignored;
  return fs::exists(below(path), ignored);
}

std::vector<std::string> SysTree::names(std::string_view path) const {
  std::vector<std::string> all;
  std::error_code error;
  for (fs::directory_iterator entry(below(path), error), end; !error && entry != end;
       entry.increment(error)) {
    all.push_back(entry->path().filename().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::optional<std::string> SysTree::text(std::string_view path) const {
  int fd = ::open(below(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat status {};
  std::array<char, 4096> page;
  ssize_t got = -1;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) got = ::read(fd, page.data(), page.size());
  ::close(fd);
  if (got < 0) return std::nullopt;
  std::string text(page.data(), static_cast<std::size_t>(got));
  auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\0'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  for (char& c : text) {
    auto code = static_cast<unsigned char>(c);
    if ((code < ' ' && c != '\n') || code >= 0x7f) c = '?';
  }
  return text;
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
  std::error_code error;
  auto target = fs::read_symlink(below(path), error);
  return error ? std::string() : target.filename().string();
}

std::string SysTree::real_path(std::string_view path) const {
  std::error_code error;
  auto real = fs::canonical(below(path), error);
  if (error) return {};
  auto relative = real.lexically_relative(root_);
  if (relative.empty() || *relative.begin() == "..") return {};
  return std::string(1, '/').append(relative.string());  // not "/" + ...: gcc 12 warns falsely
}

PciFacts read_pci_facts(const SysTree& tree, const std::string& device) {
  PciFacts facts;
  facts.driver = tree.link_name(device + "/driver");
  // Upwards to the PCI function: a virtio NIC is a child of one, most others are one.
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
      facts.virtual_function = !facts.physical_function.empty();
      break;
    }
  }
  return facts;
}

}  // namespace tombolo::topology
