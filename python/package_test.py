#!/usr/bin/env python3
"""What a user does: `pip install .` into a fresh environment; then the
package's tests in it. Exits with 77, which ctest takes for a skip, if the tools
that pip builds with cannot be had.

With the argument `flower` the environment is that of scripts/setup --flower,
and the tests are those of fedmrn.flower.

ctest sets FEDMRN_PYTHON_SCRATCH, a folder in which the build is kept, and
FEDMRN_PROGRAM.
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRATCH = pathlib.Path(os.environ["FEDMRN_PYTHON_SCRATCH"])
FLOWER = sys.argv[1:] == ["flower"]
VENV = (ROOT / "build" / "flower-venv" if FLOWER else SCRATCH / "python-venv")
TESTS = ROOT / "python" / ("flower_tests" if FLOWER else "tests")
# Flower's side by side, for its nodes mostly wait.
FILES = ([file.name for file in sorted(TESTS.glob("*_test.py"))] if FLOWER
         else ["*_test.py"])
PYTHON = VENV / "bin" / "python"
TOOLS = ["scikit-build-core>=1.1", "nanobind>=2.4"]
SKIP = 77


def pip(*arguments):
    return subprocess.run(
        [PYTHON, "-m", "pip", "install", "--quiet",
         "--disable-pip-version-check", *arguments],
        stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)


def skip(why):
    print("SKIPPED: " + why)
    sys.exit(SKIP)


def make_environment():
    if FLOWER:
        if not (VENV / "bin" / "flower-superlink").exists():
            skip("there is no Flower; scripts/setup --flower installs it")
        return
    if VENV.exists() and subprocess.run(
            [PYTHON, "-c", "import nanobind, scikit_build_core"],
            stderr=subprocess.DEVNULL).returncode == 0:
        return
    shutil.rmtree(VENV, ignore_errors=True)
    # The system's packages, for its NumPy and torch.
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages",
                    VENV], check=True)
    done = pip("--retries", "1", "--timeout", "15", *TOOLS)
    if done.returncode != 0:
        shutil.rmtree(VENV)
        print(done.stdout)
        skip("pip cannot install " + " and ".join(TOOLS)
             + ", with which the package is built; is there a network?")


def main():
    make_environment()
    done = pip("--no-build-isolation", "--no-deps", "--force-reinstall",
               f"--config-settings=build-dir={SCRATCH / 'python-build'}",
               "--config-settings=cmake.define.FEDMRN_FEW_TARGETS=ON",
               str(ROOT))
    if done.returncode != 0:
        print(done.stdout)
        sys.exit("the package cannot be built")
    # Not from the source's folder, whose fedmrn/ is the C++ one.
    tests = [subprocess.Popen(
        [PYTHON, "-m", "unittest", "discover", "-s", TESTS, "-p", file],
        cwd=SCRATCH,
        # One thread of the BLAS, as everywhere: the same sums.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
             "OPENBLAS_NUM_THREADS": "1"}) for file in FILES]
    sys.exit(1 if any([process.wait() for process in tests]) else 0)


if __name__ == "__main__":
    main()
