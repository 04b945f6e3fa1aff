"""For tests that start something at a port of their own."""
import contextlib
import random
import socket


def unused_port():
    """A port of 127.0.0.1 that nobody has now. It is below Linux' range for those that the kernel chooses (32768 up), so that
    no connection or listener of another test is given it before it is used."""
    for port in random.SystemRandom().sample(range(15000, 32000), 100):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise OSError("none of 100 ports of 127.0.0.1 was free")
