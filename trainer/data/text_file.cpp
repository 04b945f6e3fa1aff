#include "trainer/data/text_file.h"

#include <algorithm>

namespace tombolo::trainer {

JoinedFiles whole_files(const std::vector<std::string>& paths) {
  JoinedFiles files;
  for (const std::string& path : paths) files.add(path, 0, InputFile("data file", path).size());
  return files;
}

TextFile::TextFile(const std::vector<std::string>& paths) : files_(whole_files(paths)) {}

void TextFile::read(std::uint64_t position, std::span<std::int32_t> tokens) {
  bytes_.resize(tokens.size());
  files_.read(position, std::as_writable_bytes(std::span(bytes_)));
  std::ranges::copy(bytes_, tokens.begin());
}

}  // namespace tombolo::trainer
