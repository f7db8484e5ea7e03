"""Tests scripts/third_party.py on simulated wheels and folders that contain a few bytes."""

import json
import pathlib
import subprocess
import sys
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/third_party.py"
HEADER = "library\tpackage\tversion\tDebian source\tlicence\tnotice\n"
ROW = "libfmt.so.9\tlibfmt9\t9.1.0\tfmtlib 9.1.0\tMIT\tlibfmt9.txt\n"
INFO = "p-1.dist-info/"


def check(path):
    result = subprocess.run([sys.executable, str(SCRIPT), "check", str(path)], capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def wheel(folder, files):
    path = folder / "p-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {INFO + "METADATA": "Name: p\n", "p.libs/libfmt-0a1b2c3d.so.9.1.0": "code", **files}.items():
            archive.writestr(name, text)
    return path


def components(*packages):
    return json.dumps({"bomFormat": "CycloneDX", "components": [{"purl": f"pkg:deb/debian/{name}@1"} for name in packages]})


def test_a_wheel_without_notices_is_refused(tmp_path):
    code, output = check(wheel(tmp_path, {}))
    assert code == 1 and "bundles 1 libraries and has no p-1.dist-info/licenses/third_party/libraries.tsv" in output


def test_a_bundled_library_without_a_notice_is_refused(tmp_path):
    notices = INFO + "licenses/third_party/"
    code, output = check(wheel(tmp_path, {notices + "libraries.tsv": HEADER}))
    assert code == 1 and "libfmt-0a1b2c3d.so.9.1.0 is bundled without a notice" in output
    code, output = check(wheel(tmp_path, {notices + "libraries.tsv": HEADER + ROW, notices + "libfmt9.txt": ""}))
    assert code == 1 and "libfmt-0a1b2c3d.so.9.1.0 is bundled without a notice" in output


def test_a_wheel_whose_list_of_components_is_incomplete_is_refused(tmp_path):
    notices = {INFO + "licenses/third_party/libraries.tsv": HEADER + ROW, INFO + "licenses/third_party/libfmt9.txt": "MIT"}
    code, output = check(wheel(tmp_path, notices))
    assert code == 1 and "has no list of its components" in output
    code, output = check(wheel(tmp_path, {**notices, INFO + "sboms/auditwheel.cdx.json": components("zlib1g")}))
    assert code == 1 and "does not list the package libfmt9" in output
    code, output = check(wheel(tmp_path, {**notices, INFO + "sboms/auditwheel.cdx.json": components("libfmt9")}))
    assert code == 0 and "1 bundled libraries have notices" in output


def test_a_folder_needs_a_notice_for_every_library_but_its_own(tmp_path):
    notices = tmp_path / "share/doc/plimsoll/licenses/third_party"
    notices.mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    for name in ("libplimsoll.so.0.1.0", "libfmt.so.9"):
        (tmp_path / "lib" / name).write_text("code")
    (notices / "libraries.tsv").write_text(HEADER)
    code, output = check(tmp_path)
    assert code == 1 and "libfmt.so.9 is bundled without a notice" in output
    (notices / "libraries.tsv").write_text(HEADER + ROW)
    (notices / "libfmt9.txt").write_text("MIT")
    assert check(tmp_path)[0] == 0
