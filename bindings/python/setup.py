"""Puts the shared library into the package: that of EMBER_LIBRARY, or the one that `make lib` builds. In a source distribution cargo builds
it from the folder `rust`. EMBER_PROGRAM is the command-line program, if it goes into the package too; then the library has the name by which the program looks for it.

EMBER_WHEEL_PLATFORM is the wheel's platform where the library is for another machine or for more than this one, and EMBER_WHEEL_BILLS are
bills of materials that go into the wheel.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

HERE = pathlib.Path(__file__).resolve().parent
NAME = {"darwin": "libember.dylib", "win32": "ember.dll"}.get(sys.platform, "libember.so")
PROGRAM = os.environ.get("EMBER_PROGRAM")


def library():
    """The path of the shared library, which cargo builds first in a source distribution."""
    given = os.environ.get("EMBER_LIBRARY")
    if not given and (HERE / "rust/Cargo.toml").is_file():
        cargo = os.environ.get("CARGO", "cargo")
        if not shutil.which(cargo):
            raise FileNotFoundError(f"there is no {cargo}: Ember's library is written in Rust (https://rustup.rs); EMBER_LIBRARY names a built one")
        folder = HERE / "build/rust"
        command = [cargo, "build", "--release", "--locked", "--lib", "--features", "capi", "--target-dir", str(folder)]
        subprocess.run(command, cwd=HERE / "rust", check=True)
        return folder / "release" / NAME
    path = pathlib.Path(given or HERE / "../../build/lib" / NAME)
    if not path.is_file():
        raise FileNotFoundError(f"there is no shared library {path}: run `make lib` first")
    return path


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        shutil.copy(library(), pathlib.Path(self.build_lib) / "ember")
        if PROGRAM:
            shutil.copy(PROGRAM, pathlib.Path(self.build_lib) / "ember")


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        """Any Python 3 of this platform: nothing is compiled against Python."""
        return "py3", "none", os.environ.get("EMBER_WHEEL_PLATFORM") or super().get_tag()[2]

    def write_wheelfile(self, wheelfile_base, *args, **kwargs):
        super().write_wheelfile(wheelfile_base, *args, **kwargs)
        for bill in filter(None, os.environ.get("EMBER_WHEEL_BILLS", "").split(os.pathsep)):
            os.makedirs(f"{wheelfile_base}/sboms", exist_ok=True)
            shutil.copyfile(bill, f"{wheelfile_base}/sboms/{os.path.basename(bill)}")


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    distclass=BinaryDistribution,
    entry_points={"console_scripts": ["ember = ember.__main__:main"]} if PROGRAM else {},
)
