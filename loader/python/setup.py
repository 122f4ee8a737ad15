# SPDX-License-Identifier: MIT
"""Builds tombola._core against the libtombola of this tree, and takes both that library and tombola-sampler along.

TOMBOLA_BUILD is the folder where the tree was built; ../../build unless it says otherwise; make brings it up to date.
TOMBOLA_BUNDLE=no: the installed libtombola is used, as pkg-config knows it, and nothing is taken along (packages of a system).
"""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
BUILD = Path(os.environ.get("TOMBOLA_BUILD") or TREE / "build").resolve()
BUNDLES = os.environ.get("TOMBOLA_BUNDLE", "yes") != "no"
LIBRARY = BUILD / "loader" / ".libs" / "libtombola.so.0"
SAMPLER = BUILD / "sampler" / "tombola-sampler"
PARQUET = BUILD / "loader" / "parquet" / "tombola_parquet.so"  # where configure found Arrow
OBJECTS = ("array", "batch", "dlpack", "feed", "iteration", "module")


def version():
    return re.search(r"^AC_INIT\(\[[^]]*\], \[([^]]*)\]", (TREE / "configure.ac").read_text(), re.MULTILINE)[1]


@functools.cache
def make_tree():
    """The C programs, as README.md says; of a folder that is older than its sources, make remakes what has to be."""
    if not (BUILD / "Makefile").exists():
        if not (TREE / "configure").exists():
            subprocess.run(["autoreconf", "-fi"], cwd=TREE, check=True)
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([TREE / "configure"], cwd=BUILD, check=True)
    subprocess.run(["make", f"-j{os.cpu_count()}", "all"], cwd=BUILD, check=True)


class BuildModules(build_py):
    """And what is taken along."""

    def run(self):
        super().run()
        if BUNDLES:
            make_tree()
            self.take(LIBRARY, Path(LIBRARY.name))
            self.take(SAMPLER, Path("bin") / SAMPLER.name)
            if PARQUET.exists():
                self.take(PARQUET, Path(PARQUET.name))

    def take(self, source, name):
        target = Path(self.build_lib) / "tombola" / name
        if self.editable_mode:
            target = HERE / "tombola" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


class BuildCore(build_ext):
    """Against the tree's libtombola, which lies beside it, or the system's."""

    def build_extension(self, extension):
        if BUNDLES:
            make_tree()
            extension.include_dirs += [str(TREE / "loader")]
            extension.extra_link_args += [str(LIBRARY), "-Wl,-rpath,$ORIGIN"]
        else:
            words = subprocess.run(["pkg-config", "--cflags", "--libs", "tombola"], capture_output=True, text=True, check=True)
            extension.extra_link_args += words.stdout.split()
            extension.extra_compile_args += words.stdout.split()
        super().build_extension(extension)


class RefuseSource(sdist):
    """It would contain this folder alone, of which nothing can be built."""

    def run(self):
        raise SetupError("the C library is not in this folder: pip wheel --no-deps loader/python builds a wheel, make dist a tarball of all")


setup(version=version(), cmdclass={"build_py": BuildModules, "build_ext": BuildCore, "sdist": RefuseSource},
      ext_modules=[Extension("tombola._core", [f"core_{name}.c" for name in OBJECTS], depends=["core.h", "dlpack.h", "../tombola.h"],
                             include_dirs=[str(TREE)],
                             extra_compile_args=["-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"])])
