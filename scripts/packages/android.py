"""The AAR for Android, in the folders of a Maven repository: Kotlin's classes over JNI, and the shared libraries that scripts/android.sh made."""

import os
import re

import java
import kotlin
from common import ROOT, version, write_zip

BUILT = ROOT / os.environ.get("EMBER_ANDROID", "build/android")
NAME = "ember-inference-android"
ABIS = ("arm64-v8a", "x86_64")
LIBRARIES = ("libember.so", "libember_jni.so")
POM = f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{java.GROUP}</groupId>
  <artifactId>{NAME}</artifactId>
  <version>VERSION</version>
  <packaging>aar</packaging>
  <name>Ember for Android</name>
  <description>Runs language models on the CPU, with coroutines and flows</description>
  <licenses>
    <license><name>MIT OR Apache-2.0</name></license>
  </licenses>
  <dependencies>
KOTLIN  </dependencies>
</project>
"""
# What Gradle's plugin looks at before it takes an AAR: nothing new is needed.
METADATA = """aarFormatVersion=1.0
aarMetadataVersion=1.0
minCompileSdk=1
minCompileSdkExtension=0
minAndroidGradlePluginVersion=1.0.0
coreLibraryDesugaringEnabled=false
"""


def lowest():
    """The lowest version of Android that scripts/android.sh builds for."""
    script = (ROOT / "scripts/android.sh").read_text()
    return os.environ.get("ANDROID_API") or re.search(r"^api=\$\{ANDROID_API:-(\d+)\}$", script, re.M)[1]


def pack(out):
    abis = [abi for abi in ABIS if all((BUILT / abi / name).is_file() for name in LIBRARIES)]
    if not abis:
        print(f"packages: {BUILT} has no shared libraries (make android), so there is no package for Android")
        return
    javac = java.compiler()
    classes = kotlin.compiled(javac, "1.8", "", "bindings/kotlin/common/*.kt", "bindings/android/kotlin/*.kt") if javac else None
    if classes is None:
        print("packages: there is no javac 22 or no compiler for Kotlin (scripts/fetch-kotlin.sh), so there is no package for Android")
        return
    folder = out / "java" / java.GROUP.replace(".", "/") / NAME / version()
    folder.mkdir(parents=True)
    (folder / f"{NAME}-{version()}.pom").write_text(POM.replace("VERSION", version()).replace("KOTLIN", kotlin.libraries()))
    jar = folder / "classes.jar"
    write_zip(jar, classes)
    kept = ROOT / "packaging/android/aar"
    files = {
        "AndroidManifest.xml": (kept / "AndroidManifest.xml").read_text().replace("MIN_SDK", lowest()).encode(),
        "META-INF/com/android/build/gradle/aar-metadata.properties": METADATA.encode(),
        "R.txt": b"",
        "classes.jar": jar.read_bytes(),
        "proguard.txt": (kept / "proguard.txt").read_bytes(),
    }
    jar.unlink()
    for path in sorted((BUILT / "licenses").iterdir()):
        files[f"META-INF/{path.name}"] = path.read_bytes()
    for abi in abis:
        for name in LIBRARIES:
            files[f"jni/{abi}/{name}"] = (BUILT / abi / name).read_bytes()
    write_zip(folder / f"{NAME}-{version()}.aar", files)
