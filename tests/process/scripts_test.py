#!/usr/bin/env python3
"""demo.sh, test.sh and scripts/ in good and bad circumstances, without installing or compiling anything: programs that
record their command lines stand in for apt-get, cmake and the others.

usage: scripts_test.py SOURCE_FOLDER [unittest arguments]
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(sys.argv[1]).resolve()
TOOLS = ["bash", "cat", "chmod", "dirname", "env", "grep", "mkdir", "mktemp", "nproc", "rm", "sed", "sleep", "tail", "tee",
         "true", "uname", "uniq"]

RECORD = """#!/bin/bash
{ printf '%s' "${0##*/}"; printf ' [%s]' "$@"; echo; } >> "$RECORD"
"""
# Stands in for the build: it makes a `tombolo` that records its calls too.
CMAKE = RECORD + """
case $1 in
  --preset) [ -z "${CONFIGURE_FAILS:-}" ] || { echo "CMake Error: no Ninja" >&2; exit 1; } ;;
  --build) mkdir -p build/bin && { cat "$0.tombolo" > build/bin/tombolo; chmod +x build/bin/tombolo; } ;;
esac
"""
TOMBOLO = RECORD + """
[ "$2" != --linger ] || { trap 'echo "tombolo [ended]" >> "$RECORD"; exit 143' TERM; echo lingering; while :; do sleep 0.1; done; }
exit "${DEMO_EXITS:-0}"
"""
DPKG_QUERY = """#!/bin/bash
case " ${MISSING:-} " in *" ${*: -1} "*) exit 1 ;; esac
printf installed
"""
APT_GET = RECORD + """
[ -z "${NO_NETWORK:-}" ] || { echo "E: Unable to fetch some archives" >&2; exit 100; }
[ -z "${LOCKED:-}" ] || { for _ in 1 2 3; do echo "Waiting for cache lock: process 7 holds it"; done; }
echo "Fetched 126 MB"
case "$*" in *update*) [ -z "${ONE_SOURCE_FAILS:-}" ] || exit 100 ;; esac
"""
SUDO = """#!/bin/bash
[ -z "${NO_SUDO:-}" ] || exit 1
[ "$1" != -n ] || shift
exec "$@"
"""
USER_ID = """#!/bin/bash
echo "${USER_ID:-0}"
"""


class Scripts(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        top = pathlib.Path(self.scratch.name)
        self.checkout = top / "a checkout"
        self.checkout.mkdir()
        for name in ("demo.sh", "test.sh"):
            shutil.copy(SOURCES / name, self.checkout)
        shutil.copytree(SOURCES / "scripts", self.checkout / "scripts")
        self.build = self.checkout / "build"
        self.record = top / "record"
        self.programs = top / "bin"
        self.programs.mkdir()
        for tool in TOOLS:
            (self.programs / tool).symlink_to(shutil.which(tool))
        for name, text in {"cmake": CMAKE, "cmake.tombolo": TOMBOLO, "dpkg-query": DPKG_QUERY, "apt-get": APT_GET, "sudo": SUDO,
                           "id": USER_ID, "ctest": RECORD, "setarch": RECORD}.items():
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)

    def tearDown(self):
        self.scratch.cleanup()

    def start(self, script, *arguments, **variables):
        environment = {"PATH": str(self.programs), "RECORD": str(self.record), "TMPDIR": self.scratch.name}
        environment.update(variables)
        return subprocess.Popen([str(self.checkout / script), *arguments], env=environment, cwd="/", text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def end(self, process):
        """The processes of the test that still run."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def run_it(self, script, *arguments, **variables):
        """Exit code, output, and the command lines of the programs that the script ran."""
        self.record.write_text("")
        process = self.start(script, *arguments, **variables)
        try:
            out, error = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.end(process)
            self.fail(f"{script} {arguments} did not end")
        left = [name for name in os.listdir(self.scratch.name) if name.startswith("tmp.")]
        self.assertEqual(left, [], "mktemp's files")
        return process.returncode, out + error, self.record.read_text().splitlines()

    def of(self, program, commands):
        return [command for command in commands if command.startswith(program + " ")]

    # ---- demo.sh

    def test_the_demo_builds_what_it_runs_and_no_more(self):
        code, said, commands = self.run_it("demo.sh", "--steps", "2 3")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.of("apt-get", commands), [])
        self.assertRegex(self.of("cmake", commands)[1], r"\[--build\] \[build\] .*\[--target\] \[tombolo\]$")
        self.assertEqual(self.of("tombolo", commands), ["tombolo [demo] [--steps] [2 3]"])
        self.assertRegex(said, r"installed in \d+ s, built in \d+ s, demo done in \d+ s\n$")

    def test_the_demo_s_exit_code_is_its_own(self):
        code, said, _ = self.run_it("demo.sh", DEMO_EXITS="2")
        self.assertEqual(code, 2)
        self.assertIn("demo ended with exit code 2", said)

    def test_in_any_language_and_without_a_home(self):
        for variables in ({"LC_ALL": "de_DE.UTF-8"}, {"LC_ALL": "C"}, {"HOME": "/no such home"}, {"HOME": ""}):
            code, said, commands = self.run_it("demo.sh", **variables)
            self.assertEqual((code, len(self.of("tombolo", commands))), (0, 1), f"{variables}: {said}")

    def test_who_ends_the_script_ends_the_demo(self):
        for signal_number in (signal.SIGTERM, signal.SIGHUP):
            self.record.write_text("")
            process = self.start("demo.sh", "--linger")
            try:
                while process.stdout.readline() not in ("lingering\n", ""):
                    pass
                process.send_signal(signal_number)
                process.communicate(timeout=60)
            finally:
                self.end(process)
            self.assertEqual(process.returncode, 143)
            self.assertIn("tombolo [ended]", self.record.read_text())

    # ---- installing

    def test_installs_what_is_missing_and_only_that(self):
        code, said, commands = self.run_it("demo.sh", MISSING="cmake libssl-dev libgtest-dev")
        self.assertEqual(code, 0, said)
        update, install = self.of("apt-get", commands)
        self.assertTrue(update.endswith("[update]"), update)
        self.assertTrue(install.endswith("[--no-install-recommends] [cmake] [libssl-dev]"), install)
        self.assertIn("libgtest-dev", " ".join(self.run_it("test.sh", MISSING="libgtest-dev")[2]))

    def test_one_source_of_packages_that_fails_is_no_reason_to_stop(self):
        code, said, commands = self.run_it("demo.sh", MISSING="cmake", ONE_SOURCE_FAILS="1")
        self.assertEqual((code, len(self.of("tombolo", commands))), (0, 1), said)

    def test_says_whom_it_waits_for_and_no_more(self):
        _, said, _ = self.run_it("scripts/dependencies.sh", MISSING="cmake")
        self.assertEqual(said, "==> Installing Debian packages: cmake\n")
        _, said, _ = self.run_it("scripts/dependencies.sh", MISSING="cmake", LOCKED="1")
        self.assertEqual(said.count("Waiting for cache lock"), 2, said)  # update and install

    def test_without_a_network_it_says_so(self):
        for script in ("demo.sh", "test.sh"):
            code, said, commands = self.run_it(script, MISSING="cmake ninja-build", NO_NETWORK="1")
            self.assertEqual(code, 3)
            self.assertIn("E: Unable to fetch some archives", said)
            self.assertIn("Installing failed", said)
            self.assertIn("install -y --no-install-recommends cmake ninja-build", said)
            self.assertEqual(self.of("cmake", commands), [])

    def test_who_may_not_install_is_told_the_command(self):
        code, said, commands = self.run_it("demo.sh", MISSING="cmake", USER_ID="1000", NO_SUDO="1")
        self.assertEqual((code, commands), (3, []))
        self.assertIn("sudo apt-get install -y --no-install-recommends cmake", said)
        code, said, commands = self.run_it("demo.sh", MISSING="cmake", USER_ID="1000")
        self.assertEqual((code, len(self.of("apt-get", commands))), (0, 2), said)

    def test_another_system_is_told_what_it_needs(self):
        (self.programs / "dpkg-query").unlink()
        code, said, commands = self.run_it("demo.sh")
        self.assertEqual((code, commands), (3, []))
        self.assertRegex(said, r"not a Debian-like system.*g\+\+ cmake ninja-build")

    # ---- building

    def test_a_cache_of_another_place_or_generator_is_made_anew(self):
        self.build.mkdir()
        cache = self.build / "CMakeCache.txt"

        def write(home, folder, generator):
            cache.write_text(f"CMAKE_CACHEFILE_DIR:INTERNAL={folder}\nCMAKE_GENERATOR:INTERNAL={generator}\n"
                             f"CMAKE_HOME_DIRECTORY:INTERNAL={home}\n")

        write(self.checkout, self.build, "Ninja")
        code, said, _ = self.run_it("scripts/build.sh")
        self.assertEqual(code, 0, said)
        self.assertTrue(cache.exists())
        self.assertNotIn("anew", said)
        for home, folder, generator in (("/gone", self.build, "Ninja"), (self.checkout, "/gone/build", "Ninja"),
                                        (self.checkout, self.build, "Unix Makefiles")):
            write(home, folder, generator)
            code, said, _ = self.run_it("scripts/build.sh")
            self.assertEqual(code, 0, said)
            self.assertFalse(cache.exists(), (home, folder, generator))
            self.assertIn("configuring it anew", said)

    def test_a_folder_that_cannot_be_written_to_is_named(self):
        self.build.write_text("in the way\n")
        for script in ("demo.sh", "test.sh", "scripts/build.sh"):
            code, said, commands = self.run_it(script, MISSING="cmake")
            self.assertEqual((code, commands), (1, []))  # not even what is missing was installed
            self.assertIn(f"{self.build} cannot be written to", said)

    def test_what_configuring_lacks_is_shown(self):
        code, said, commands = self.run_it("scripts/build.sh", CONFIGURE_FAILS="1")
        self.assertEqual((code, len(commands)), (1, 1))
        self.assertIn("CMake Error: no Ninja", said)
        self.assertIn("./demo.sh and ./test.sh install it", said)
        (self.programs / "cmake").unlink()
        code, said, _ = self.run_it("scripts/build.sh")
        self.assertEqual(code, 1)
        self.assertIn("cmake: command not found", said)
        self.assertIn("./demo.sh and ./test.sh install it", said)

    # ---- test.sh

    def test_test_sh_builds_everything_and_hands_its_options_on(self):
        code, said, commands = self.run_it("test.sh", "-L", "unit")
        self.assertEqual(code, 0, said)
        self.assertNotIn("--target", self.of("cmake", commands)[1])
        self.assertTrue(self.of("ctest", commands)[0].endswith("[-L] [unit]"), commands)

    def test_test_sh_ends_with_what_failed(self):
        log = self.build / "Testing/Temporary"
        log.mkdir(parents=True)
        seeds = "".join(f"TOMBOLO_TEST_SEED={seed}\n" for seed in range(1000, 1300))
        tests = {"good": ("all is well\n", "Passed."), "bad": (seeds + "a.cpp:3: Failure\n" + seeds, "Failed."),
                 "long": ("".join(f"line {line}\n" for line in range(1000)), "Failed.")}
        (log / "LastTest.log").write_text("Start testing\n" + "".join(
            f'{number}/3 Testing: {name}\n{number}/3 Test: {name}\nCommand: "x"\n"{name}" start time: now\nOutput:\n-----\n'
            f'{output}<end of output>\nTest time = 1 sec\n-----\nTest {result}\n"{name}" end time: now\n-----\n\n'
            for number, (name, (output, result)) in enumerate(tests.items(), 1)))
        (log / "LastTestsFailed.log").write_text("2:bad\n3:long\n")
        (self.programs / "ctest").write_text("#!/bin/bash\nexit 8\n")
        (self.programs / "python3").symlink_to(sys.executable)
        code, said, _ = self.run_it("test.sh")
        self.assertEqual(code, 8)
        told = said[said.index("==> Testing"):].splitlines()
        at = told.index("==> What bad said:")
        self.assertEqual(told[at:at + 4], ["==> What bad said:", "a.cpp:3: Failure", "TOMBOLO_TEST_SEED=1299", ""])
        at = told.index("==> What long said:")
        self.assertEqual(told[at + 1:at + 162], [f"line {line}" for line in range(80)] + ["[840 lines left out]"] +
                         [f"line {line}" for line in range(920, 1000)])
        self.assertEqual(told[at + 162:], ["", "The whole of it: build/Testing/Temporary/LastTest.log"])
        self.assertNotIn("all is well", said)


class FindsCudnn(unittest.TestCase):
    """cmake/Cudnn.cmake, by cmake itself, in made-up folders."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.top = pathlib.Path(self.scratch.name).resolve()
        (self.top / "find.cmake").write_text(f"""include("{SOURCES}/cmake/Cudnn.cmake")
message("${{TOMBOLO_CUDNN_INCLUDE}} ${{TOMBOLO_CUDNN_FRONTEND_INCLUDE}} ${{TOMBOLO_CUDNN_LIBRARY_DIR}}")
""")

    def tearDown(self):
        self.scratch.cleanup()

    def put(self, *paths):
        for path in paths:
            (self.top / path).parent.mkdir(parents=True, exist_ok=True)
            (self.top / path).touch()

    def find(self, root, environment=None):
        # What this machine has installed is no part of it.
        arguments = ["-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF"]
        arguments += [f"-DTOMBOLO_CUDNN_ROOT={self.top / root}"] if root else []
        done = subprocess.run(["cmake", *arguments, "-P", str(self.top / "find.cmake")], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60,
                              env={**{k: v for k, v in os.environ.items() if k != "CUDNN_ROOT"}, **(environment or {})})
        return done.returncode, done.stdout.replace(str(self.top) + "/", "").strip()

    def test_in_an_environment_of_python(self):
        packages = "env/lib/python3.11/site-packages"
        self.put(f"{packages}/include/cudnn_frontend.h", f"{packages}/nvidia/cudnn/include/cudnn.h",
                 f"{packages}/nvidia/cudnn/lib/libcudnn.so.9")
        found = (0, f"{packages}/nvidia/cudnn/include {packages}/include {packages}/nvidia/cudnn/lib")
        self.assertEqual(self.find("env"), found)
        self.assertEqual(self.find(packages), found)
        self.assertEqual(self.find(None, {"CUDNN_ROOT": str(self.top / "env")}), found)

    def test_where_an_archive_was_unpacked(self):
        self.put("cudnn/include/cudnn.h", "cudnn/include/cudnn_frontend.h")
        self.assertEqual(self.find("cudnn"), (0, "cudnn/include cudnn/include"))

    def test_a_root_that_lacks_one_of_both_is_refused(self):
        self.put("half/include/cudnn_frontend.h")
        code, said = self.find("half")
        self.assertEqual(code, 1)
        for words in ("TOMBOLO_CUDNN_ROOT=", "cudnn.h (TOMBOLO_CUDNN_INCLUDE-NOTFOUND)", "nvidia-cudnn-cu13"):
            self.assertIn(words, " ".join(said.split()))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
