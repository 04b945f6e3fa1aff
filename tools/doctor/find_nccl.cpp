#include "tools/doctor/find_nccl.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tools/doctor/loaded_apart.h"

namespace tombolo::doctor {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";

/// Says what PyTorch would load without importing it: "torch VERSION", "cuda" and the path of its library
/// where it is built for GPUs, "nccl" and that of a wheel's.
constexpr const char* kAskPython = R"(
import importlib.util, os, re, sys
print("python", sys.executable)
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin:
    folder = os.path.dirname(spec.origin)
    try:
        text = open(os.path.join(folder, "version.py")).read()
        print("torch", re.search(r"__version__ = '([^']+)'", text).group(1))
    except (OSError, AttributeError):
        print("torch", "?")
    library = os.path.join(folder, "lib", "libtorch_cuda.so")
    if os.path.exists(library):
        print("cuda", library)
    for place in [os.path.dirname(folder), *sys.path]:
        path = os.path.join(place, "nvidia", "nccl", "lib", "libnccl.so.2")
        if os.path.exists(path):
            print("nccl", path)
            break
)";

struct PythonTorch {
  std::string python, torch, cuda, nccl;
};

PythonTorch ask_python() {
  PythonTorch answer;
  const auto program = tools::find_program("python3");
  if (!program) return answer;
  const tools::Finished finished = tools::run_program({*program, "-c", kAskPython}, {}, kPatience);
  std::istringstream lines(finished.output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = std::min(line.find(' '), line.size());
    const std::string key = line.substr(0, blank);
    const std::string rest = blank < line.size() ? line.substr(blank + 1) : "";
    if (key == "python") answer.python = rest;
    if (key == "torch") answer.torch = rest;
    if (key == "cuda") answer.cuda = rest;
    if (key == "nccl") answer.nccl = rest;
  }
  return answer;
}

/// What the loader says of what a library needs: "libnccl.so.2 => /lib/libnccl.so.2 (0x00007f60406f5000)" or
/// "... => not found" for each. It runs none of the library. Empty, with why in `error`, where it cannot load
/// it.
tools::Finished list_needs(const std::string& library) {
  Dl_info loader{};
  if (::dladdr(reinterpret_cast<void*>(::getauxval(AT_BASE)), &loader) == 0)
    return {1, {}, "this program's own loader is not known"};
  // Its --list would give up at the first that is missing.
  return tools::run_program({loader.dli_fname, library}, {}, kPatience,
                            [] { return ::setenv("LD_TRACE_LOADED_OBJECTS", "1", 1) == 0 ? 0 : errno; });
}

/// PyTorch loads every wheel of CUDA's that it finds in sys.path where its first library lacks one of them.
bool loads_wheels_first(const std::string& torch_library) {
  const auto first = std::filesystem::path(torch_library).parent_path() / "libtorch_global_deps.so";
  return list_needs(first.string()).output.find(" => not found") != std::string::npos;
}

FoundNccl load(const std::string& library, const std::string& by) {
  const Json answer = in_child({}, [&]() -> Json {
    void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) return loader_error();
    auto* version_of = reinterpret_cast<int (*)(int*)>(::dlsym(handle, "ncclGetVersion"));
    int version = 0;
    if (version_of == nullptr || version_of(&version) != 0)
      return {{"error", fmt::format("{} does not tell its release", path_of(handle))}};
    return {{"path", path_of(handle)}, {"release", version}};
  });
  if (answer.contains("error"))
    return {{}, kUnknownRelease, {}, fmt::format("{}: {}", by, answer.at("error").get<std::string>())};
  return {answer.at("path"), answer.at("release"), by, {}};
}

FoundNccl of_torch(const PythonTorch& python, const std::string& torch) {
  auto none = [&](const std::string& why) {
    return FoundNccl{{}, kUnknownRelease, {}, fmt::format("{}: {}", torch, why)};
  };
  const tools::Finished needs = list_needs(python.cuda);
  if (needs.output.empty())
    return none(
        fmt::format("its libtorch_cuda.so does not load: {}", needs.error.substr(0, needs.error.find('\n'))));
  const std::string beginning = fmt::format("\t{} => ", kLibrary);
  const std::size_t at = needs.output.find(beginning);
  if (at == std::string::npos) {
    return none(
        "its libtorch_cuda.so needs no libnccl.so.2, so that an NCCL is part of it, whose release only a "
        "job says (NCCL_DEBUG=VERSION)");
  }
  if (!python.nccl.empty() && loads_wheels_first(python.cuda)) return load(python.nccl, torch);
  const std::size_t path = at + beginning.size();
  if (needs.output.compare(path, 9, "not found") == 0) {
    return none(
        "the libnccl.so.2 that its libtorch_cuda.so needs is in no folder that the loader looks in, nor "
        "is there a wheel that PyTorch would load");
  }
  return load(needs.output.substr(path, needs.output.find(" (", path) - path), torch);
}

}  // namespace

FoundNccl find_nccl() {
  const PythonTorch python = ask_python();
  const std::string torch = fmt::format("PyTorch {} of {}", python.torch, python.python);
  if (!python.cuda.empty()) return of_torch(python, torch);
  FoundNccl found = load(kLibrary, "the loader");
  if (!python.torch.empty() && found.path.empty())
    found.why_none = fmt::format("{} is built without CUDA; {}", torch, found.why_none);
  return found;
}

}  // namespace tombolo::doctor
