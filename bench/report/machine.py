"""The conditions of a measurement: the machine, the source that was built, the day."""
import datetime
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _first(path, pattern):
    """The first group of the first match in a file; None without a file or a match."""
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(encoding="utf-8"), re.M)
    except OSError:
        return None
    return found.group(1).strip() if found else None


def _said(*command):
    """A command's first line; None where it cannot be run, or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout.splitlines() or [""])[0].strip() or None


def processor():
    return _first("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.processor() or platform.machine()


def instruction_sets():
    """Those of the processor that matrix products depend on, as Linux names them; none where it does not tell."""
    flags = (_first("/proc/cpuinfo", r"^(?:flags|Features)\s*:\s*(.+)$") or "").split()
    return [name for name in flags if re.match(r"avx|fma$|amx|sve|asimd|bf16$|i8mm$", name)]


def machine():
    """Facts that figures depend on; `governor` is None where the system does not tell, as in a virtual machine."""
    memory = _first("/proc/meminfo", r"^MemTotal:\s*(\d+) kB")
    return {"processor": processor(), "cores": os.cpu_count(), "memory_bytes": int(memory) * 1024 if memory else None,
            "kernel": platform.release(),
            "governor": _first("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", r"(\S+)"),
            "load_average": round(os.getloadavg()[0], 2)}


def why_no_gpu():
    """What keeps a benchmark of NVIDIA's GPUs from running here; None where there is one."""
    return None if "GPU" in (_said("nvidia-smi", "-L") or "") else "no GPU (nvidia-smi lists none)"


def source():
    """The commit, and whether files were changed since, other than records of what was measured; both None outside a clone."""
    commit = _said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    changed = _said("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results")
    return {"commit": commit, "changed": changed is not None if commit else None}


def versions(build):
    """Versions of Tombolo in the build folder, of its compiler and of Python."""
    compiler = _first(build / "CMakeCache.txt", r"^CMAKE_CXX_COMPILER:\w+=(.+)$")
    return {"tombolo": _said(str(build / "bin" / "tombolo"), "--version"),
            "compiler": _said(compiler, "--version") if compiler else None,
            "build_type": _first(build / "CMakeCache.txt", r"^CMAKE_BUILD_TYPE:\w+=(.+)$"),
            "python": platform.python_version()}


def today():
    return datetime.datetime.now().astimezone().isoformat(timespec="minutes")
