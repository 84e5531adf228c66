"""Ember for Conan 2, from the archives for C and C++ that `make packages` makes: nothing is compiled, and no Rust is needed.

    conan create build/packages/conan        # the recipe as make packages lays it out, beside the archives in build/packages/c
"""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, load, unzip

SYSTEMS = {"Linux": "linux", "Macos": "apple-darwin", "Windows": "windows"}
PROCESSORS = {"x86_64": "x86_64", "armv8": "aarch64"}


class EmberRecipe(ConanFile):
    name = "ember-inference"
    description = "Language models on the CPU, inside your own process, as a C library"
    license = "MIT OR Apache-2.0"
    homepage = "https://ember.example"
    topics = ("llm", "gguf", "inference", "embeddings")
    package_type = "library"
    settings = "os", "arch"
    options = {"shared": [True, False], "libc": ["gnu", "musl"]}
    default_options = {"shared": True, "libc": "gnu"}
    exports = "VERSION"

    def set_version(self):
        self.version = self.version or load(self, os.path.join(self.recipe_folder, "VERSION")).strip()

    def config_options(self):
        if self.settings.os != "Linux":
            del self.options.libc

    def export_sources(self):
        copy(self, f"ember-{self.version}-*", os.path.join(self.recipe_folder, "..", "c"), self.export_sources_folder)

    def validate(self):
        if str(self.settings.os) not in SYSTEMS or str(self.settings.arch) not in PROCESSORS:
            raise ConanInvalidConfiguration(f"there is no archive of Ember for {self.settings.os} on {self.settings.arch}")

    def _archive(self):
        """The archive of this system among those that were exported."""
        system, processor = SYSTEMS[str(self.settings.os)], PROCESSORS[str(self.settings.arch)]
        libc = f"-{self.options.libc}" if self.settings.os == "Linux" else ""
        wanted = f"ember-{self.version}-{processor}-{system}{libc}"
        for file in sorted(os.listdir(self.export_sources_folder)):
            if file.startswith(wanted):
                return os.path.join(self.export_sources_folder, file)
        raise ConanInvalidConfiguration(f"there is no archive {wanted} in {self.export_sources_folder}")

    def build(self):
        unzip(self, self._archive(), self.build_folder, strip_root=True)

    def package(self):
        source, out = self.build_folder, self.package_folder
        copy(self, "*", os.path.join(source, "include"), os.path.join(out, "include"))
        copy(self, "*", os.path.join(source, "licenses"), os.path.join(out, "licenses"))
        copy(self, "*.cdx.json", source, os.path.join(out, "licenses"))
        if self.options.shared:
            for pattern in ("libember.so*", "libember*.dylib", "libember.dll.a", "ember.lib"):
                copy(self, pattern, os.path.join(source, "lib"), os.path.join(out, "lib"))
            copy(self, "ember.dll", os.path.join(source, "bin"), os.path.join(out, "bin"))
        else:
            copy(self, "libember.a", os.path.join(source, "lib"), os.path.join(out, "lib"))

    def package_info(self):
        self.cpp_info.libs = ["ember"]
        self.cpp_info.set_property("cmake_file_name", "Ember")
        self.cpp_info.set_property("cmake_target_name", "Ember::ember")
        self.cpp_info.set_property("pkg_config_name", "ember")
        if not self.options.shared:
            system = {"Linux": ["pthread", "dl", "m"], "Windows": ["ws2_32", "userenv", "ntdll", "bcrypt", "advapi32"]}
            self.cpp_info.system_libs = system.get(str(self.settings.os), [])
