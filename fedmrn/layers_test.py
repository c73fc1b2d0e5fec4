#!/usr/bin/env python3
"""The house as CONTRIBUTING.md draws it, checked on the source itself.

- A folder includes only those above it in LAYERS.
- Everything stands in its folder's namespace, so that two folders may use one
  name for two things: one type of each name in a namespace, or the linker may
  take one for the other without a word.
- Nothing that is not LibTorch's business includes LibTorch, nor MPI.
- The Python package stands on the core alone.
"""

import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent

LAYERS = ["base", "core", "train", "client", "results", "sim", "theory",
          "report", "cli"]

# The library's own name is the namespace of what is installed for devices.
NAMESPACES = {"base": "fedmrn", "core": "fedmrn"}

TESTS = re.compile(r"_test\.cc$|test_util\.h$|tiny_sets\.h$|fake_task\.h$")
TYPE = re.compile(
    r"^(?:class|struct|enum class|enum|union)\s+"
    r"(?:\[\[\w+\]\]\s+|alignas\([^)]*\)\s+)?(\w+)"
    r"(?:\s+final)?\s*(?::(?!:)[^;{]*)?\{", re.M)


def sources():
    for path in sorted(ROOT.glob("**/*")):
        if path.suffix in (".cc", ".h"):
            yield path, path.relative_to(ROOT).parts[0], path.read_text()


def without_anonymous(text):
    """The text less its unnamed namespaces, which are a file's own."""
    return re.sub(r"^namespace \{\n.*?^\}  // namespace\n", "", text,
                  flags=re.M | re.S)


class Layers(unittest.TestCase):
    def test_every_folder_has_its_place(self):
        folders = {folder for _, folder, _ in sources()}
        self.assertEqual(folders, set(LAYERS))

    def test_includes_point_upwards(self):
        for path, folder, text in sources():
            for included in re.findall(r'#include "fedmrn/(\w+)/', text):
                self.assertLessEqual(
                    LAYERS.index(included), LAYERS.index(folder),
                    f"{path} includes {included}/")

    def test_namespace_is_the_folder(self):
        for path, folder, text in sources():
            wanted = NAMESPACES.get(folder, "fedmrn::" + folder)
            others = "|".join(name for name in LAYERS if name != folder)
            self.assertIsNone(
                re.search(rf"^namespace fedmrn::({others})\b", text, re.M),
                path)
            for found in re.findall(r"^namespace (fedmrn[\w:]*) \{", text,
                                    re.M):
                # A part may have a namespace within, as the scalar twins have.
                self.assertTrue((found + "::").startswith(wanted + "::"),
                                f"{path} is in {found}")

    def test_a_namespace_has_one_type_of_a_name(self):
        places = collections.defaultdict(set)
        for path, folder, text in sources():
            if TESTS.search(path.name):
                continue
            for name in TYPE.findall(without_anonymous(text)):
                namespace = NAMESPACES.get(folder, folder)
                places[namespace, name].add(str(path.relative_to(ROOT)))
        self.assertGreater(len(places), 100)  # the pattern still finds them
        twice = {key: files for key, files in places.items()
                 if len(files) > 1}
        self.assertEqual(twice, {})

    def test_libtorch_stays_in_its_room(self):
        for path, _, text in sources():
            if re.search(r"#include <(torch|ATen|c10)/", text):
                self.assertTrue(
                    path.parent.name == "torch" or TESTS.search(path.name),
                    path)

    def test_mpi_stays_in_its_room(self):
        rooms = {path.parent.name for path, _, text in sources()
                 if "#include <mpi.h>" in text}
        self.assertEqual(rooms, {"mpi"})

    def test_python_stands_on_the_core(self):
        files = sorted((ROOT.parent / "python").glob("*.[ch]*"))
        self.assertNotEqual(files, [])
        for path in files:
            included = set(re.findall(r'#include "fedmrn/(\w+)/',
                                      path.read_text()))
            self.assertLessEqual(included, {"base", "core"}, path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
