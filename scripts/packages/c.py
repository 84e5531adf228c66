"""Archives for C and C++: what scripts/install.sh installs, the command-line program, licences and bills of materials."""

import os
import subprocess
import tempfile

from common import ROOT, licences, program, version, write_tar, write_zip


def pack(out, targets):
    for target in targets:
        name = f"ember-{version()}-{target.name}"
        with tempfile.TemporaryDirectory() as work:
            # A prefix of its own, so that paths from one folder to another are right; where it lies does not matter.
            settings = {key: value for key, value in os.environ.items() if key not in ("LIBDIR", "INCLUDEDIR")}
            settings.update(DESTDIR=work, PREFIX=f"/{name}")
            subprocess.run([ROOT / "scripts/install.sh", "--relocatable", target.folder / "lib"], check=True, env=settings)
            files, links = {}, {}
            for folder, _, entries in os.walk(work):
                for entry in entries:
                    path = os.path.join(folder, entry)
                    inside = os.path.relpath(path, work).replace(os.sep, "/")
                    if os.path.islink(path):
                        links[inside] = os.readlink(path)
                    else:
                        with open(path, "rb") as file:
                            files[inside] = file.read()
        texts, bill = licences(target)
        files.update({f"{name}/licenses/{file}": text for file, text in texts.items()})
        files[f"{name}/ember.cdx.json"] = bill
        ember, texts, bill = program(target)
        if ember:
            files[f"{name}/bin/{ember.name}"] = ember.read_bytes()
            files.update({f"{name}/licenses/{file}": text for file, text in texts.items()})
            files[f"{name}/ember-program.cdx.json"] = bill
        files[f"{name}/README.md"] = (ROOT / "packaging/archive.md").read_bytes()
        files[f"{name}/CHANGELOG.md"] = (ROOT / "CHANGELOG.md").read_bytes()
        if "windows" in target.name:
            write_zip(out / "c" / f"{name}.zip", files)
        else:
            write_tar(out / "c" / f"{name}.tar.gz", files, links)
