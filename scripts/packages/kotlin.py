"""The Maven artifact for Kotlin, beside Java's, whose classes and libraries it needs."""

import os
import pathlib
import subprocess
import tempfile

import java
from common import ROOT, version, write_zip

NAME = "ember-inference-kotlin"
POM = f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{java.GROUP}</groupId>
  <artifactId>{NAME}</artifactId>
  <version>VERSION</version>
  <name>Ember for Kotlin</name>
  <description>Runs language models on the CPU, with coroutines and flows</description>
  <licenses>
    <license><name>MIT OR Apache-2.0</name></license>
  </licenses>
  <dependencies>
    <dependency>
      <groupId>{java.GROUP}</groupId>
      <artifactId>{java.NAME}</artifactId>
      <version>VERSION</version>
    </dependency>
KOTLIN  </dependencies>
</project>
"""


def libraries():
    """The libraries that programs in Kotlin need, as scripts/fetch-kotlin.sh has them: elements of a POM."""
    sums = (ROOT / "packaging/kotlin.sha256").read_text()
    found = ""
    for group, name, file in (
        ("org.jetbrains.kotlin", "kotlin-stdlib", "kotlin-stdlib-"),
        ("org.jetbrains.kotlinx", "kotlinx-coroutines-core", "kotlinx-coroutines-core-jvm-"),
    ):
        number = sums.split(f" {file}")[1].split(".jar")[0]
        found += f"    <dependency>\n      <groupId>{group}</groupId>\n      <artifactId>{name}</artifactId>\n"
        found += f"      <version>{number}</version>\n    </dependency>\n"
    return found


def compiled(javac, target, classes, *patterns):
    """The class files of Kotlin sources by their names, as the Java beside `javac` compiles them; None where Kotlin's compiler cannot be had."""
    environment = {**os.environ, "JAVA": str(pathlib.Path(os.path.realpath(javac)).parent / "java")}
    if subprocess.run(["sh", ROOT / "scripts/fetch-kotlin.sh"], env=environment, stdout=subprocess.DEVNULL).returncode:
        return None
    sources = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    with tempfile.TemporaryDirectory() as work:
        command = ["sh", ROOT / "bindings/kotlin/compile.sh", work, target, classes, "-Xexplicit-api=strict", "-module-name", "ember", *sources]
        subprocess.run(command, env=environment, check=True)
        return {path.relative_to(work).as_posix(): path.read_bytes() for path in sorted(pathlib.Path(work).rglob("*")) if path.is_file()}


def pack(out, _targets):
    javac = java.compiler()
    jar = out / "java" / java.GROUP.replace(".", "/") / java.NAME / version() / f"{java.NAME}-{version()}.jar"
    files = compiled(javac, "22", jar, "bindings/kotlin/common/*.kt", "bindings/kotlin/jvm/*.kt") if javac else None
    if files is None:
        print("packages: there is no javac 22 or no compiler for Kotlin (scripts/fetch-kotlin.sh), so there is no package for Kotlin")
        return
    folder = out / "java" / java.GROUP.replace(".", "/") / NAME / version()
    folder.mkdir(parents=True)
    (folder / f"{NAME}-{version()}.pom").write_text(POM.replace("VERSION", version()).replace("KOTLIN", libraries()))
    manifest = f"Manifest-Version: 1.0\r\nAutomatic-Module-Name: ember.kotlin\r\nImplementation-Version: {version()}\r\n\r\n"
    files["META-INF/MANIFEST.MF"] = manifest.encode()
    for name in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE"):
        files[f"META-INF/{name}"] = (ROOT / name).read_bytes()
    write_zip(folder / f"{NAME}-{version()}.jar", files)
