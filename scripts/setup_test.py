#!/usr/bin/env python3
"""What scripts/setup installs is enough to compile what it says it is for.

Every header that the compiler read, as Ninja wrote it down, belongs to a
package that scripts/setup names or to one that such a package depends on: what
happens to be installed here for other reasons, a new machine would not have.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ["FEDMRN_BUILD"])


def output(*command):
    # dpkg-query fails where it does not know one of the files.
    return subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def listed(name):
    """The packages of the array `name` in scripts/setup."""
    lines = (ROOT / "scripts/setup").read_text()
    array = re.search(rf"^{name}=\(\n(.*?)^\)", lines, re.M | re.S)[1]
    return re.sub(r"#.*", "", array).split()


def with_dependencies(packages):
    """`packages` and all that apt installs with them, of those here."""
    depends, providers = {}, collections.defaultdict(list)
    form = "${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
    for line in output("dpkg-query", "-W", "-f", form).splitlines():
        package, provides, needs = line.split("\t")
        depends[package] = re.findall(r"(?:^|[,|])\s*([^\s,|:(]+)", needs)
        for name in re.findall(r"(?:^|,)\s*([^\s,(]+)", provides):
            providers[name].append(package)
    found, left = set(), list(packages)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += depends.get(name, providers[name])
    return found


def packages_read():
    """{target: {package: a header of it}} of what the compiler read."""
    files, target = collections.defaultdict(set), None
    for line in output("ninja", "-C", BUILD, "-t", "deps").splitlines():
        if line.endswith("(VALID)"):
            place = re.search(r"CMakeFiles/(\w+)\.dir/", line)
            target = place and place[1]
        elif not line.startswith(" "):  # of a file that is gone
            target = None
        elif target and line.startswith("    /usr/"):
            files[target].add(os.path.realpath(line.strip()))
    owners = {}
    for line in output("dpkg-query", "-S",
                       *sorted(set().union(*files.values()))).splitlines():
        packages, file = line.split(": ", 1)
        owners[file] = packages.split(":")[0].split(",")[0]
    return {target: {owners[file]: file for file in found if file in owners}
            for target, found in files.items()}


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.read = packages_read()

    def check(self, targets, packages):
        read = {}
        for target in targets:
            read.update(self.read[target])
        self.assertIn("libhwy-dev", read)  # so headers were seen
        allowed = with_dependencies(packages)
        self.assertEqual({package: file for package, file in read.items()
                          if package not in allowed}, {})

    def test_headers_are_of_packages_that_setup_names(self):
        # Without MPI's package the program is built without that module.
        program = [target for target in self.read
                   if target.startswith("fedmrn") and
                   target not in ("fedmrn_mpi", "fedmrn_test_headers")]
        self.check(program, listed("program"))
        self.check(self.read, listed("program") + listed("test"))


if __name__ == "__main__":
    if not (shutil.which("dpkg-query") and (BUILD / ".ninja_deps").exists()):
        print("skipped: neither Debian's packages nor a build by Ninja")
        sys.exit(77)
    unittest.main(argv=sys.argv, verbosity=2)
