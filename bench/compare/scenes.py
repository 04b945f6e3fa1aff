"""Where the ranks are: on this host, or on emulated hosts in two clusters that a slow link joins."""
import dataclasses
import math

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Scene:
    key: str
    name: str  # in words, for the page
    ranks: tuple = ()  # that are measured; empty: those of the command line
    per_host: int = 0  # ranks of an emulated host; 0: all are on this host
    order: str = "block"  # of ranks on the hosts, as of `tombolo run --order`: block: those of a host follow each other
    collectives: tuple = ()  # that are measured where the command line names none; empty: all with even parts
    most_bytes: float = math.inf  # of the sizes that are measured

    def hosts(self, ranks):
        return ranks // self.per_host

    def emulated(self, ranks):
        """What `tombolo run --emulate` is told."""
        return f"two-clusters:rate=1gbit,hosts={self.hosts(ranks)}"

    def options(self, ranks):
        """Those of `tombolo run`; none on this host."""
        if not self.per_host:
            return []
        return ["--emulate", self.emulated(ranks), "--emulation-mode", "namespaces", "--order", self.order]


# Gather and scatter have to be named: for most sizes all libraries wait for the link there.
_ON_HOSTS = ("allreduce", "allgather", "reducescatter", "broadcast", "alltoall", "reduce", "barrier")
SCENES = {one.key: one for one in (
    Scene("host", "one host"),
    Scene("clusters", "two clusters", (4, 8), 2, "block", _ON_HOSTS, 16 * MIB),
    Scene("interleaved", "two clusters, ranks interleaved", (4, 8), 2, "interleaved", _ON_HOSTS, 16 * MIB))}
