"""The libraries that are compared: which of them are here, how their drivers are built, and how ranks of them are started."""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLLECTIVES = ["allreduce", "allgather", "reducescatter", "broadcast", "alltoall", "reduce", "gather", "scatter", "barrier"]
UNEVEN = ["allgatherv", "reducescatterv", "gatherv", "scatterv", "alltoallv"]  # with parts of unequal size


@dataclasses.dataclass(frozen=True)
class Library:
    key: str  # the first word names the driver's program
    name: str
    driver: str  # its source without the extension
    compiler: list
    launcher: list  # before "-n RANKS DRIVER"
    settings: str  # in words, for the page
    environment: dict = dataclasses.field(default_factory=dict)
    collectives: tuple = tuple(COLLECTIVES + UNEVEN)
    sleeps: bool = False  # whether ranks sleep while they wait for each other before a call, as the library's own waits do
    binds: str = "always"  # when its ranks are told to bind themselves on one host: "crowded" where there are more than processors; "never"
    on_hosts: list = dataclasses.field(default_factory=list)  # of a launcher of its own: its options for emulated hosts
    orders: dict = dataclasses.field(default_factory=dict)  # and those for an order of ranks on them
    only_on_hosts: bool = False  # not measured on one host
    version: str = ""

    @property
    def program(self):
        return f"{self.key.split('-')[0]}_driver"

    def command(self, build, scene, ranks, agent):
        """The command that starts the driver on so many ranks, to which the driver's own arguments are added. `agent`: what stands for ssh
        on emulated hosts. Ranks of no launcher of their own get no cluster file, and what they find out of the hosts is kept beside the agent."""
        driver = str(build / "compare" / self.program)
        run = [str(build / "bin" / "tombolo"), "run", "--quiet", *scene.options(ranks)]
        if not self.launcher:
            alone = ["--env", "TOMBOLO_CLUSTER=", "--env", f"TOMBOLO_DISCOVER={agent.with_name('islands.json')}"] if scene.per_host else []
            return [*run, *alone, "-n", str(ranks), "--", driver]
        own = [*self.launcher, "-n", str(ranks), driver]
        if not scene.per_host:
            return own
        options = [word.replace("AGENT", str(agent)) for word in [*self.on_hosts, *self.orders[scene.order]]]
        return [*run, "-n", str(scene.hosts(ranks)), "--", "unshare", "--uts", sys.executable, str(HERE / "mpi_hosts.py"), "host",
                str(scene.per_host), own[0], *options, *own[1:]]


def _said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _gloo_header():
    return next((path for path in (pathlib.Path(root) / "gloo" / "config.h" for root in ("/usr/include", "/usr/local/include"))
                 if path.exists()), None)


def _gloo_version():
    package = _said("dpkg-query", "-W", "-f", "${Version}", "libgloo-dev").strip()
    text = _gloo_header().read_text(encoding="utf-8")
    numbers = [re.search(rf"GLOO_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(numbers) + (f" (Debian {package})" if package else "")


def _open_mpi():
    """It, and on emulated hosts its hierarchical collectives."""
    # It binds ranks to processors, and lets waiting ranks yield where there are more ranks, by itself; but not on emulated hosts, which
    # share the processors.
    version = re.search(r"\) (\S+)|$", _said("mpirun.openmpi", "--version")).group(1)
    plain = Library("openmpi", "Open MPI", "mpi_driver", ["mpicxx.openmpi"], ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
                    "its defaults on one host: shared memory with single copies (`vader`, CMA), `tuned` collectives; it binds ranks where there are "
                    "processors enough, and lets waiting ranks yield where there are not (bound too); `--oversubscribe`. On several hosts: `btl "
                    "vader,tcp,self`, shared memory inside each; `mpi_yield_when_idle 1`, `--bind-to none`", binds="crowded",
                    version=version or "unknown",
                    on_hosts=["--mca", "plm_rsh_agent", "AGENT", "--leave-session-attached", "--host", "HOSTS", "--bind-to", "none",
                              "--mca", "pml", "ob1", "--mca", "btl", "vader,tcp,self", "--mca", "btl_tcp_if_include", "eth0",
                              "--mca", "oob_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1"],
                    orders={"block": ["--map-by", "slot"], "interleaved": ["--map-by", "node"]})
    # Its all-reduce of this version ends in a crash where a vector of more than 64 KiB is no multiple of them, its segments.
    han = dataclasses.replace(plain, key="openmpi-han", name="Open MPI, han", only_on_hosts=True,
                              collectives=("allreduce", "allgather", "broadcast", "reduce", "gather", "scatter"),
                              on_hosts=[*plain.on_hosts, "--mca", "coll_han_priority", "100"],
                              settings="as above with its hierarchical collectives, where it has such: `coll_han_priority 100`")
    ways = [word for one in ("bcast", "reduce", "allreduce") for word in ("--mca", f"coll_han_{one}_up_module", "1")]
    adapt = dataclasses.replace(han, key="openmpi-adapt", name="Open MPI, han and adapt", collectives=("allreduce", "broadcast", "reduce"),
                                on_hosts=[*han.on_hosts, *ways],
                                settings="as above, and between hosts `adapt` in place of `libnbc` (`coll_han_allreduce_up_module 1`, and those of "
                                         "the others)")
    return [plain, han, adapt]


def _mpich():
    version = re.search(r"Version:\s*(\S+)|$", _said("mpichversion")).group(1)
    return Library("mpich", "MPICH", "mpi_driver", ["mpicxx.mpich"], ["mpiexec.mpich"],
                   "its defaults on one host: shared memory (`ch4`); each rank bound to a processor. Its waiting ranks do "
                   "not yield, whatever `MPIR_CVAR_POLLS_BEFORE_YIELD` says (1, 10 and 100 were tried): it is not made for more ranks than "
                   "processors. On several hosts: UCX over TCP (`UCX_TLS tcp,self`), its own shared memory inside each",
                   version=version or "unknown",
                   on_hosts=["-iface", "eth0", "-launcher", "rsh", "-launcher-exec", "AGENT", "-hosts", "HOSTS", "-genv", "UCX_TLS", "tcp,self",
                             "-genv", "UCX_NET_DEVICES", "eth0"],
                   orders={"block": [], "interleaved": ["-ppn", "1"]})


def _gloo(compiler):
    """It, and its two other all-reduces."""
    ring = Library("gloo", "Gloo", "gloo_driver", [compiler, "-lgloo"], [],
                   "TCP, the only transport that this version has, on one host too; all-reduce by a ring; started by `tombolo run`, meets by files; not "
                   "bound, because each rank has a second thread; its ranks sleep before each call, as its waits do; its reduce-scatter works "
                   "in place; it has no gather and no scatter of uneven parts",
                   {"COMPARE_ALLREDUCE": "ring"}, collectives=tuple(one for one in COLLECTIVES + UNEVEN if one not in ("gatherv", "scatterv")),
                   sleeps=True, binds="never", version=_gloo_version())
    return [ring, *(dataclasses.replace(ring, key=f"gloo-{name}", name=f"Gloo, {name}", environment={"COMPARE_ALLREDUCE": name},
                                        collectives=("allreduce",), settings="as above with that all-reduce")
                    for name in ("bcube", "halving-doubling"))]


def find(build):
    """(Libraries that can be measured here, Tombolo first; why each of the others cannot)."""
    compiler = os.environ.get("CXX", "c++")
    version = (_said(str(build / "bin" / "tombolo"), "--version").split() or ["unknown"])[-1]
    found = [Library("tombolo", "Tombolo", "tombolo_driver",
                     [compiler, f"-I{ROOT}/include", f"-L{build}/lib", "-Wl,-rpath,$ORIGIN/../lib", "-ltombolo"], [],
                     "its defaults; started by `tombolo run`; each rank bound to a processor. On several hosts: no "
                     "cluster file, each job finds out by itself which hosts are near each other", version=version)]
    missing = {}
    if shutil.which("mpicxx.openmpi") and shutil.which("mpirun.openmpi"):
        found += _open_mpi()
    else:
        missing["Open MPI"] = "apt install openmpi-bin libopenmpi-dev"
    if shutil.which("mpicxx.mpich") and shutil.which("mpiexec.mpich"):
        found.append(_mpich())
    else:
        missing["MPICH"] = "apt install mpich libmpich-dev"
    if _gloo_header():
        found += _gloo(compiler)
    else:
        missing["Gloo"] = "apt install libgloo-dev"
    missing["UCC"] = "not compared; Debian 12 has no package of it"
    return found, missing


def build_driver(library, build):
    """Builds the library's driver unless it is newer than its sources. Raises subprocess.CalledProcessError."""
    program = build / "compare" / library.program
    sources = [*HERE.glob("*.h"), *HERE.glob("*.cpp"), *(ROOT / "include" / "tombolo").glob("*.h"), HERE / "libraries.py"]
    if program.exists() and program.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return
    program.parent.mkdir(parents=True, exist_ok=True)
    compiler, *flags = library.compiler
    subprocess.run([compiler, "-std=c++20", "-O3", f"-I{ROOT}", str(HERE / f"{library.driver}.cpp"), "-o", str(program), *flags],
                   check=True, capture_output=True, text=True, timeout=300)
