"""The Maven artifact, in the folders of a Maven repository: a jar of classes, and a jar for each system with the library."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from common import ROOT, licences, version, write_zip

GROUP, NAME = "ember.example", "ember-inference"
POM = f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{GROUP}</groupId>
  <artifactId>{NAME}</artifactId>
  <version>VERSION</version>
  <name>Ember</name>
  <description>Runs language models on the CPU, inside the Java process</description>
  <licenses>
    <license><name>MIT OR Apache-2.0</name></license>
  </licenses>
</project>
"""


def compiler():
    """javac 22 or newer: JAVAC, the one beside JAVA, or the one in PATH."""
    java = os.environ.get("JAVA")
    beside = os.path.join(os.path.dirname(os.path.realpath(shutil.which(java) or java)), "javac") if java else "javac"
    javac = shutil.which(os.environ.get("JAVAC", beside))
    if javac:
        done = subprocess.run([javac, "-version"], capture_output=True, text=True)
        found = re.search(r"javac (\d+)", done.stdout + done.stderr)
        if found and int(found[1]) >= 22:
            return javac
    return None


def pack(out, targets):
    javac = compiler()
    if not javac:
        print("packages: there is no javac 22 (JAVA names a JDK), so there is no package for Java")
        return
    folder = out / "java" / GROUP.replace(".", "/") / NAME / version()
    folder.mkdir(parents=True)
    (folder / f"{NAME}-{version()}.pom").write_text(POM.replace("VERSION", version()))
    manifest = f"Manifest-Version: 1.0\r\nAutomatic-Module-Name: ember\r\nImplementation-Version: {version()}\r\n\r\n".encode()
    files = {"META-INF/MANIFEST.MF": manifest}
    with tempfile.TemporaryDirectory() as work:
        sources = sorted((ROOT / "bindings/java/ember").glob("*.java"))
        subprocess.run([javac, "--release", "22", "-Xlint:-options", "-d", work, *sources], check=True)
        for path in sorted(pathlib.Path(work).rglob("*.class")):
            files[path.relative_to(work).as_posix()] = path.read_bytes()
    for name in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE"):
        files[f"META-INF/{name}"] = (ROOT / name).read_bytes()
    write_zip(folder / f"{NAME}-{version()}.jar", files)
    for target in targets:
        texts, bill = licences(target)
        files = {f"META-INF/{name}": text for name, text in texts.items()}
        files["META-INF/MANIFEST.MF"] = b"Manifest-Version: 1.0\r\n\r\n"
        files["META-INF/ember.cdx.json"] = bill
        library = target.folder / target.library
        files[f"ember/natives/{target.java}/{library.name}"] = library.read_bytes()
        write_zip(folder / f"{NAME}-{version()}-{target.java}.jar", files)
