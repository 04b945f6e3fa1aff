#!/usr/bin/env python3
"""libtombolo.so's collectives on memory of a real GPU, by ctypes: two ranks share it; on one the send buffers, on the other all are
GPU memory. Every result is compared with what it must be. Ends with 77 where there is no GPU.

usage: engine_two_ranks.py --library build/lib/libtombolo.so [--results FILE] [--seconds N]
"""
import argparse
import array
import ctypes
import json
import multiprocessing
import sys
import time

RANKS, INT32, SUM = 2, 2, 0
COUNTS = [1, 1000, 1 << 18, 9 << 20]  # elements of 4 bytes; the last in several pieces


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Gpu:
    """GPU 0 in its primary context, by CUDA's driver."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context, self.stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: CUDA error {result}")

    def allocate(self, count):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * count))
        return address.value

    def read(self, address, count):
        self.call("cuCtxSynchronize")
        found = array.array("i", bytes(4 * count))
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.buffer_info()[0]), ctypes.c_uint64(address), ctypes.c_size_t(4 * count))
        return found

    def fill_on_stream(self, address, count, value):
        """Queued only: what comes behind it on the stream sees it."""
        self.call("cuMemsetD32Async", ctypes.c_uint64(address), ctypes.c_uint(value), ctypes.c_size_t(count), self.stream)


def rank_main(rank, library, id_bytes, results):
    gpu = Gpu()
    tombolo = ctypes.CDLL(library)
    tombolo.tomboloGetLastError.restype = ctypes.c_char_p
    tombolo.tomboloGetLastError.argtypes = [ctypes.c_void_p]

    def check(result):
        if result != 0:
            raise RuntimeError(tombolo.tomboloGetLastError(None).decode())

    comm = ctypes.c_void_p()
    check(tombolo.tomboloCommInitRank(ctypes.byref(comm), RANKS, UniqueId.from_buffer_copy(id_bytes), rank))
    check(tombolo.tomboloCommSetStream(comm, gpu.stream))
    for count in COUNTS:
        parts = RANKS * count
        send, receive = gpu.allocate(parts), gpu.allocate(parts)
        host = array.array("i", bytes(4 * parts))
        to = receive if rank == 1 else host.buffer_info()[0]
        received = (lambda n: gpu.read(receive, n)) if rank == 1 else (lambda n: host[:n])
        size, own = ctypes.c_size_t(count), rank + 1
        one, both = array.array("i", [3]) * count, array.array("i", [1]) * count + array.array("i", [2]) * count
        pointer, target = ctypes.c_void_p(send), ctypes.c_void_p(to)

        def fill():
            gpu.fill_on_stream(send, parts, own)

        def expect(name, found, expected, begun):
            seconds = time.perf_counter() - begun
            if found() != expected:
                raise RuntimeError(f"rank {rank}: {name} of {count} elements is wrong")
            results.put({"case": "engine", "collective": name, "count": count, "rank": rank, "seconds": seconds})

        fill()
        begun = time.perf_counter()
        check(tombolo.tomboloAllReduce(pointer, target, size, INT32, SUM, comm))
        expect("all_reduce", lambda: received(count), one, begun)
        begun = time.perf_counter()
        check(tombolo.tomboloAllReduce(pointer, pointer, size, INT32, SUM, comm))
        expect("all_reduce in place", lambda: gpu.read(send, count), one, begun)
        fill()
        begun = time.perf_counter()
        check(tombolo.tomboloAllGather(pointer, target, size, INT32, comm))
        expect("all_gather", lambda: received(parts), both, begun)
        begun = time.perf_counter()
        check(tombolo.tomboloReduceScatter(pointer, target, size, INT32, SUM, comm))
        expect("reduce_scatter", lambda: received(count), one, begun)
        begun = time.perf_counter()
        check(tombolo.tomboloAllToAll(pointer, target, size, INT32, comm))
        expect("all_to_all", lambda: received(parts), both, begun)
        begun = time.perf_counter()
        check(tombolo.tomboloBroadcast(pointer, target, size, INT32, 1, comm))
        expect("broadcast", lambda: received(count), array.array("i", [2]) * count, begun)
        begun = time.perf_counter()
        check(tombolo.tomboloGroupStart())
        check(tombolo.tomboloSend(pointer, size, INT32, 1 - rank, comm))
        check(tombolo.tomboloRecv(target, size, INT32, 1 - rank, comm))
        check(tombolo.tomboloGroupEnd())
        expect("send and receive", lambda: received(count), array.array("i", [2 - rank]) * count, begun)
        for address in (send, receive):
            gpu.call("cuMemFree_v2", ctypes.c_uint64(address))
    check(tombolo.tomboloCommDestroy(comm))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--results")
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        print("engine_two_ranks: no CUDA driver: skipped")
        return 77
    made = UniqueId()
    tombolo = ctypes.CDLL(options.library)
    tombolo.tomboloGetLastError.restype = ctypes.c_char_p
    if tombolo.tomboloGetUniqueId(ctypes.byref(made)) != 0:
        print("engine_two_ranks:", tombolo.tomboloGetLastError(None).decode())
        return 1
    context = multiprocessing.get_context("spawn")  # CUDA does not work in forked processes
    results = context.Queue()
    ranks = [context.Process(target=rank_main, args=(rank, options.library, bytes(made), results)) for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    lines, until = [], time.monotonic() + options.seconds
    while any(rank.is_alive() for rank in ranks) or not results.empty():
        try:
            lines.append(results.get(timeout=0.2))
        except Exception:  # queue.Empty
            pass
        if time.monotonic() > until:
            print("engine_two_ranks: not done in time")
            for rank in ranks:
                rank.kill()
            return 1
    if options.results:
        with open(options.results, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    for line in lines:
        print("{collective} of {count} elements, rank {rank}: {seconds:.6f} s".format(**line))
    failed = [rank.exitcode for rank in ranks if rank.exitcode != 0]
    print("engine_two_ranks:", "failed" if failed else "every byte is right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
