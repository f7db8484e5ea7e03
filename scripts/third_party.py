#!/usr/bin/env python3
"""Collects and checks the licences of the libraries that a wheel or a tarball bundles.

    third_party.py list PROGRAM            print the libraries to bundle: soname, file
    third_party.py notices PROGRAM FOLDER  write the notices of these libraries into FOLDER
    third_party.py wheel PROGRAM WHEEL     add the notices to WHEEL, which auditwheel made from PROGRAM, and complete its list of components
    third_party.py copyright ON|OFF FILE   write Debian's copyright file of a package without bundled libraries, with CUDA code or without
    third_party.py check FOLDER|WHEEL      fail if a bundled library has no notice, or the wheel has no list of its components

The texts are those that Debian's packages install. THIRD_PARTY.md states the licence of each library; a library that it does not list is refused.
"""

import base64
import csv
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Libraries that are not bundled, because every Linux with glibc has them. The tag of the wheel states the versions that
# it needs.
SYSTEM = {"ld-linux-x86-64", "libc", "libm", "libdl", "librt", "libpthread", "libgcc_s", "libstdc++", "libz", "linux-vdso"}
COMMON = pathlib.Path("/usr/share/common-licenses")
# Paths of the licence of the CUDA runtime in the folder of a toolkit, as NVIDIA's installer and NVIDIA's wheels store
# it.
CUDA_TEXTS = ["EULA.txt", "doc/EULA.txt", "dist-info/nvidia_cuda_runtime-*/licenses/License.txt"]


def fail(message):
    sys.exit(f"third_party: {message}")


def stem(name):
    """Returns the name without version and without the hash that auditwheel inserts: libfmt-2f4ac1b5.so.9.1.0 is libfmt."""
    return re.sub(r"(-[0-9a-f]{8})?\.so(\..*)?$", "", name)


def output_of(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        fail(f"{' '.join(command)} failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def libraries(program):
    """Returns the path of each shared library that the program needs and that not every system has, by soname."""
    found = {}
    for line in output_of("ldd", str(program)).splitlines():
        match = re.match(r"\s*(\S+) => (.*)", line)
        if not match or stem(match[1]) in SYSTEM:
            continue
        path = match[2].split(" (")[0]
        if path == "not found":
            fail(f"{program} needs {match[1]}, which is not installed")
        found[match[1]] = pathlib.Path(path)
    return found


def listed():
    """Returns the licence that THIRD_PARTY.md states for each library. The key is the library's name without its version."""
    rows = {}
    for line in (ROOT / "THIRD_PARTY.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[0].startswith("`lib"):
            rows[cells[0].strip("`")] = cells[5]
    return rows


def package_of(path):
    """Returns the name, version, source package and version of the source package of the Debian package that installed a file."""
    # dpkg knows a file only by the path in its package, which may begin with /usr or not, because /lib is a link to
    # /usr/lib.
    names = {path, path.resolve()}
    names |= {pathlib.Path("/usr") / name.relative_to("/") for name in names if not name.is_relative_to("/usr")}
    names |= {pathlib.Path("/") / name.relative_to("/usr") for name in names if name.is_relative_to("/usr")}
    for name in sorted(names):
        result = subprocess.run(["dpkg-query", "-S", str(name)], capture_output=True, text=True)
        if result.returncode == 0:
            package = result.stdout.split(": ")[0].split(",")[0]
            form = "${Package}\t${Version}\t${source:Package}\t${source:Version}"
            return output_of("dpkg-query", "-W", f"-f={form}", package).split("\t")
    fail(f"no Debian package installed {path}; build from Debian's packages, so that the licence is known")


def has_cuda(program):
    return ".nv_fatbin" in output_of("readelf", "-SW", str(program))


def cuda_text():
    for root in (pathlib.Path("/usr/local/cuda"), *sorted(pathlib.Path("/usr/local").glob("cuda-*"))):
        for pattern in CUDA_TEXTS:
            for text in sorted(root.glob(pattern)):
                return text
    for text in sorted(pathlib.Path("/usr/share/doc").glob("cuda-cudart-*/copyright")):
        return text
    fail("the program contains the CUDA runtime, and its licence was not found in /usr/local/cuda (EULA.txt)")


def write_notices(program, folder):
    """Writes the notices; returns the SPDX licences of the program and of the libraries that are bundled with it."""
    folder.mkdir(parents=True, exist_ok=True)
    licences, rows, texts = ["Apache-2.0", "MIT", "Unicode-3.0"], [], []
    known = listed()

    def add_notice(package):
        text = pathlib.Path("/usr/share/doc") / package / "copyright"
        if not text.is_file():
            fail(f"package {package} has no {text}; a system that excludes documents cannot build packages")
        target = folder / f"{package}.txt"
        shutil.copyfile(text.resolve(), target)
        texts.append(target.read_text(errors="replace"))
        return target.name

    for soname, path in sorted(libraries(program).items()):
        if stem(soname) not in known:
            fail(f"{soname} would be bundled, but THIRD_PARTY.md does not list {stem(soname)}; add its row with its licence")
        package, version, source, source_version = package_of(path)
        rows.append([soname, package, version, f"{source} {source_version}", known[stem(soname)], add_notice(package)])
        licences.append(known[stem(soname)])
    add_notice("nlohmann-json3-dev")
    shutil.copyfile(ROOT / "LICENSES/Unicode-3.0.txt", folder / "Unicode-3.0.txt")
    if has_cuda(program):
        shutil.copyfile(cuda_text(), folder / "NVIDIA-CUDA-EULA.txt")
        licences.append("LicenseRef-NVIDIA-CUDA-EULA")
    # Debian's licence texts refer to files in this folder for long licences. Other systems do not have it.
    for name in sorted({name.rstrip(".") for text in texts for name in re.findall(r"common-licenses/([\w.+-]+)", text)}):
        if (COMMON / name).is_file():
            shutil.copyfile((COMMON / name).resolve(), folder / f"common-license-{name}.txt")
    with open(folder / "libraries.tsv", "w", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(["library", "package", "version", "Debian source", "licence", "notice"])
        table.writerows(rows)
    parts = sorted({part for licence in licences for part in licence.split(" AND ")})
    return " AND ".join(["Apache-2.0"] + [part for part in parts if part != "Apache-2.0"])


def complete_components(info, cuda):
    """Adds to auditwheel's list of components what it omits: libraries below /lib, code of headers and static libraries, and licences."""
    file = next(info.glob("sboms/*.cdx.json"), None)
    if file is None:
        fail(f"{info} has no list of components (sboms/*.cdx.json); auditwheel 6.5 and later writes one")
    content = json.loads(file.read_text())
    whole = content["components"][0]["bom-ref"]
    dependencies = next(entry for entry in content["dependencies"] if entry["ref"] == whole)["dependsOn"]
    with open(info / "licenses/third_party/libraries.tsv") as table:
        parts = [(row["package"], row["version"], row["licence"]) for row in csv.DictReader(table, delimiter="\t")]
    parts = [(name, version, f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='~')}", licence) for name, version, licence in parts]
    json_version = output_of("dpkg-query", "-W", "-f=${Version}", "nlohmann-json3-dev")
    parts.append(("nlohmann-json3-dev", json_version, f"pkg:deb/debian/nlohmann-json3-dev@{json_version}", "MIT"))
    if cuda:
        header = pathlib.Path("/usr/local/cuda/include/cuda_runtime_api.h").read_text()
        number = int(re.search(r"#define\s+CUDART_VERSION\s+(\d+)", header)[1])
        version = f"{number // 1000}.{number % 1000 // 10}"
        parts.append(("cuda-cudart-static", version, f"pkg:generic/nvidia/cuda-cudart-static@{version}", "LicenseRef-NVIDIA-CUDA-EULA"))
    for name, version, purl, licence in parts:
        component = next((entry for entry in content["components"] if entry["name"] == name), None)
        if component is None:
            component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
            content["components"].append(component)
            content["dependencies"].append({"ref": purl})
            dependencies.append(purl)
        component["licenses"] = [{"expression": licence}]
    file.write_text(json.dumps(content))


def write_copyright(cuda, target):
    """Writes the copyright file of a Debian package (format: debian.org/doc/packaging-manuals/copyright-format/1.0)."""

    def indented(path):
        lines = path.read_text(errors="replace").splitlines()
        return "".join(f" {line.rstrip()}\n" if line.strip() else " .\n" for line in lines)

    sections = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Plimsoll\n",
        "Files: *\nCopyright: 2026 Plimsoll contributors\nLicense: Apache-2.0\n",
        "Files: include/nlohmann/*\nCopyright: 2013-2026 Niels Lohmann\nLicense: Expat\n"
        "Comment: Headers that the library and the program contain in compiled form.\n",
        "Files: src/io/text/tables/*\nCopyright: 2026 Plimsoll contributors\n 1991-2024 Unicode, Inc.\nLicense: Apache-2.0 and Unicode-3.0\n",
    ]
    if cuda:
        sections.append("Files: libcudart_static.a\nCopyright: 2007-2026 NVIDIA Corporation\nLicense: NVIDIA-CUDA-EULA\n"
                        "Comment: The CUDA runtime, which the library and the program contain.\n")
    sections.append("License: Apache-2.0\n On Debian systems, the complete text of the Apache License, Version 2.0, is in\n"
                    " /usr/share/common-licenses/Apache-2.0.\n")
    expat = re.search(r"^License: (?:MIT|Expat)\n((?: .*\n)+)", pathlib.Path("/usr/share/doc/nlohmann-json3-dev/copyright").read_text(), re.M)
    if not expat:
        fail("/usr/share/doc/nlohmann-json3-dev/copyright has no text of the MIT licence")
    sections.append("License: Expat\n" + expat[1])
    sections.append("License: Unicode-3.0\n" + indented(ROOT / "LICENSES/Unicode-3.0.txt"))
    if cuda:
        sections.append("License: NVIDIA-CUDA-EULA\n" + indented(cuda_text()))
    target.write_text("\n".join(sections))


def add_to_wheel(program, wheel):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        tree, notices = work / "tree", work / "notices"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tree)
            modes = {entry.filename: entry.external_attr for entry in archive.infolist()}
            date = max(entry.date_time for entry in archive.infolist())
        info = next(tree.glob("*.dist-info"))
        expression = write_notices(program, notices)
        shutil.copytree(notices, info / "licenses/third_party", dirs_exist_ok=True)
        complete_components(info, has_cuda(program))
        files = sorted(str(file.relative_to(info / "licenses")) for file in (info / "licenses").rglob("*") if file.is_file())
        head, _, body = (info / "METADATA").read_text().partition("\n\n")
        lines = [line for line in head.split("\n") if not line.startswith(("License-File:", "License-Expression:"))]
        lines += [f"License-Expression: {expression}"] + [f"License-File: {file}" for file in files]
        (info / "METADATA").write_text("\n".join(lines) + "\n\n" + body)
        record = info / "RECORD"
        members = sorted(file for file in tree.rglob("*") if file.is_file() and file != record)
        rows = []
        for file in members:
            data = file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{file.relative_to(tree)},sha256={digest},{len(data)}\n")
        record.write_text("".join(rows) + f"{record.relative_to(tree)},,\n")
        packed = work / "packed.whl"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for file in members + [record]:
                entry = zipfile.ZipInfo(str(file.relative_to(tree)), date)
                entry.external_attr = modes.get(entry.filename, 0o100644 << 16)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes(), compresslevel=9)
        shutil.copyfile(packed, wheel)


def check_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        bundled = [pathlib.PurePath(name).name for name in names if ".libs/" in name and ".so" in name]
        prefix = next((name.removesuffix("METADATA") for name in names if name.endswith(".dist-info/METADATA")), None)
        table = f"{prefix}licenses/third_party/libraries.tsv"
        if table not in names:
            fail(f"{wheel} bundles {len(bundled)} libraries and has no {table}; scripts/build_wheel.sh adds it")
        rows = archive.read(table).decode()
        check_rows(bundled, rows, {name.removeprefix(f"{prefix}licenses/third_party/"): archive.getinfo(name).file_size for name in names})
        lists = [name for name in names if name.startswith(prefix) and name.endswith(".cdx.json")]
        if not lists:
            fail(f"{wheel} has no list of its components (sboms/*.cdx.json); auditwheel 6.5 and later writes one")
        content = json.loads(archive.read(lists[0]))
        if content.get("bomFormat") != "CycloneDX":
            fail(f"{lists[0]} in {wheel} is no CycloneDX document")
        components = " ".join(component.get("purl", "") for component in content.get("components", []))
        for row in csv.DictReader(rows.splitlines(), delimiter="\t"):
            if f"/{row['package']}@" not in components:
                fail(f"{lists[0]} in {wheel} does not list the package {row['package']}")
        print(f"third_party: {len(bundled)} bundled libraries have notices, and {lists[0]} lists them")


def check_rows(bundled, rows, sizes):
    notices = {stem(row["library"]): row["notice"] for row in csv.DictReader(rows.splitlines(), delimiter="\t")}
    for library in bundled:
        notice = notices.get(stem(library))
        if notice is None or sizes.get(notice, 0) == 0:
            fail(f"{library} is bundled without a notice; its row in libraries.tsv: {notice}")


def check_folder(folder):
    """Checks a tarball's tree: lib/ contains the libraries, share/doc/plimsoll/licenses the notices."""
    notices = folder / "share/doc/plimsoll/licenses/third_party"
    bundled = [file.name for file in (folder / "lib").glob("*.so*") if not file.name.startswith("libplimsoll")]
    check_rows(bundled, (notices / "libraries.tsv").read_text(), {file.name: file.stat().st_size for file in notices.iterdir()})
    print(f"third_party: {len(bundled)} bundled libraries have notices")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "list":
        for soname, path in sorted(libraries(arguments[1]).items()):
            print(f"{soname}\t{path}")
    elif len(arguments) == 3 and arguments[0] == "notices":
        print(write_notices(arguments[1], pathlib.Path(arguments[2])))
    elif len(arguments) == 3 and arguments[0] == "wheel":
        add_to_wheel(arguments[1], pathlib.Path(arguments[2]))
    elif len(arguments) == 3 and arguments[0] == "copyright":
        write_copyright(arguments[1] in ("ON", "1", "TRUE"), pathlib.Path(arguments[2]))
    elif len(arguments) == 2 and arguments[0] == "check":
        path = pathlib.Path(arguments[1])
        check_folder(path) if path.is_dir() else check_wheel(path)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
