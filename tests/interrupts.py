"""What a test that interrupts a program gives to subprocess as `preexec_fn`."""
import signal


def take_interrupts():
    """These two stay ignored in a program where they were: whoever runs the tests in the background may have them ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
