"""What an untrusted process left behind is read in full, or is one exception, in little time and memory."""

import gzip
import io
import json
import os
import random
import struct
import time
import zipfile

import numpy as np
import pytest

from gapless.incoming import Unreadable, clean_text, read_arrays, read_json

posix = pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
VALUE = {"exercise": "double", "answers": [{"case": "ünï", "error": None, "shape": [2, 3], "x": 1.5e-3, "ok": True}] * 3, "n": 10**12}
ARRAYS = {"0.value": np.arange(6.0).reshape(2, 3), "0.grad.x": np.asfortranarray(np.eye(3, dtype=np.float16)),
          "mask": np.array([True, False]), "scalar": np.array(7), "none": np.zeros((0, 4), np.complex64), "big": np.array([1, 2], ">i4")}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file"


def stored(arrays, **options):
    out = io.BytesIO()
    np.savez(out, **arrays, **options)
    return out.getvalue()


def archive(**members):
    """A zip file of these members, not compressed, whatever they hold."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in members.items():
            file.writestr(name + ".npy", content)
    return out.getvalue()


def array_bytes(header, data=b"", version=b"\1\0"):
    header = header.encode() if isinstance(header, str) else header
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


def header(descr="'<f8'", order="False", shape="(1,)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


# -- JSON --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_json_comes_back_as_it_was(file, pack):
    file.write_bytes(pack(json.dumps(VALUE).encode()))
    assert read_json(file) == VALUE


@pytest.mark.parametrize("content, says", [
    (b"", "Expecting value"),
    (b"{", "Expecting"),
    (b"\xff\xfe", "decode"),
    (b"[" * 100_000 + b"]" * 100_000, "recursion|deep"),
    (b"[" * 70 + b"]" * 70, "64 deep"),
    (b'{"a": ' * 70 + b"1" + b"}" * 70, "64 deep"),
    (b"[" + b"[]," * 2_000_000 + b"1]", "more than 2000000 items"),
    (b"[" + b"0," * 3_000_000 + b"1]", "more than 2000000 items"),
    (b"1" * 10_000, "digits"),
    (b"[NaN]", "NaN"), (b"[-Infinity]", "Infinity"), (b"[1e999]", "not finite"),
    (b'{"\\ud800": 1}', "not text"),
    (b" " * (17 * 2**20), "larger than 16 MB"),
    (gzip.compress(b" " * (17 * 2**20), mtime=0), "unpacked it is larger than 16 MB"),
    (gzip.compress(b"{}", mtime=0)[:-3], "no whole gzip"),
    (gzip.compress(b"{}", mtime=0) + gzip.compress(b"{}", mtime=0), "no whole gzip"),
    (b"\x1f\x8bnothing of the kind", "Error -3|gzip"),
])
def test_json_that_is_not_as_agreed(file, content, says):
    file.write_bytes(content)
    with pytest.raises(Unreadable, match=f"(?s)^cannot be read: file: .*({says})"):
        read_json(file)


def test_json_may_hold_what_is_allowed(file):
    file.write_text('[NaN, Infinity, -Infinity, "\\ud800 and \\ud83d\\ude00", {"a": "\\udfff"}]')
    value = read_json(file, allow_nan=True)
    assert value[0] != value[0] and value[1:] == [float("inf"), float("-inf"), "\ufffd and 😀", {"a": "\ufffd"}]


# -- arrays ------------------------------------------------------------------------------------------


def test_arrays_come_back_as_they_were(file):
    file.write_bytes(stored(ARRAYS))
    found = read_arrays(file)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable


def _compressed():
    out = io.BytesIO()
    np.savez_compressed(out, a=np.zeros(10**5))
    return out.getvalue()


def _overlapping():
    """Two names for the same bytes: each is small, and together they are as much as one likes."""
    content = bytearray(archive(a=array_bytes(header(shape="(100,)"), bytes(800))))
    start = content.index(b"PK\1\2")
    end = content.index(b"PK\5\6")
    entries = [bytes(content[start:end]).replace(b"a.npy", b"%c.npy" % letter) for letter in b"abcdef"]
    tail = bytearray(content[end:])
    tail[8:12] = struct.pack("<HH", len(entries), len(entries))
    tail[12:16] = struct.pack("<I", sum(map(len, entries)))
    return bytes(content[:start]) + b"".join(entries) + bytes(tail)


@pytest.mark.parametrize("content, says", [
    (b"", "np.savez"), (b"PK", "np.savez"), (stored(ARRAYS)[:-1], "np.savez"), (stored(ARRAYS) + b"x", "np.savez"),
    (_compressed(), "compressed"),
    (stored({f"a{i}": np.zeros(1) for i in range(1001)}), "more than 1000"),
    (stored({"a" * 150 + str(i): np.zeros(1) for i in range(1000)} | {"b" * 200: np.zeros(1)} | {"c" * 199: np.zeros(1)}), "more than 1000"),
    (_overlapping(), "CRC|larger|header|differ|Overlapped|shape"),
    (archive(**{"../a": b""}), "no name"), (archive(**{"a" * 300: b""}), "no name"),
    (archive(a=b""), "format"), (archive(a=array_bytes(header(), bytes(8), b"\3\0")), "format"),
    (archive(a=array_bytes(header(), bytes(7))), "does not fit"), (archive(a=array_bytes(header(), bytes(9))), "does not fit"),
    (archive(a=array_bytes(header(shape="(999999999999999999,)"), bytes(8))), "does not fit"),
    (archive(a=array_bytes(header(shape="(0, 999999999999999999, 999999999999999999)"))), ""),
    (archive(a=array_bytes(header(shape=f"({', '.join(['1'] * 60)})"), bytes(8))), "does not fit"),
    (archive(a=array_bytes(header(shape="(-1,)"), bytes(8))), "not one of numbers"),
    (archive(a=array_bytes(header(shape="(1, )"), bytes(8))), "not one of numbers"),
    (archive(a=array_bytes(header(descr="'|O'"), bytes(8))), "not one of numbers"),
    (archive(a=array_bytes(header(descr="[('a', '<f8')]"), bytes(8))), "not one of numbers"),
    (archive(a=array_bytes(header(descr="'<U2'"), bytes(8))), "not one of numbers"),
    (archive(a=array_bytes(header(descr="'<f3'"), bytes(3))), "not one of numbers"),
    (archive(a=array_bytes(header(descr="__import__('os').abort()"), bytes(8))), "not one of numbers"),
    (archive(a=array_bytes("(" * 10_000, bytes(8))), "too long"),
    (archive(a=array_bytes(header(descr="'|b1'"), b"\2")), "neither true nor false"),
], ids=lambda each: "content" if isinstance(each, bytes) else None)  # a zip file has the time in it
def test_arrays_that_are_not_as_agreed(file, content, says):
    file.write_bytes(content)
    with pytest.raises(Unreadable, match=f"(?s)^cannot be read: file: .*({says})"):
        read_arrays(file, 4 * 2**20)


def test_the_sizes_of_all_arrays_together_are_limited(file):
    file.write_bytes(_overlapping())
    with pytest.raises(Unreadable, match="its arrays are larger than"):
        read_arrays(file, 3000)


# -- files -------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("read", [read_json, read_arrays])
@pytest.mark.parametrize("kind, says", [("none", "No such file"), ("folder", "not a regular file|directory"), ("pipe", "not a regular file"),
                                        ("link", "it is a link"), ("second name", "somebody else"), ("device", "not a regular file")])
def test_only_regular_files_of_one_s_own_are_read(tmp_path, read, kind, says):
    path, good = tmp_path / "it", tmp_path / "good"
    good.write_text("{}")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(good)
    elif kind == "second name":
        os.link(good, path)
    elif kind == "device":
        path = "/dev/zero"
    with pytest.raises(Unreadable, match=says):
        read(path)


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_s_is_not_read(file):
    file.write_text("{}")
    os.chown(file, 12345, -1)
    with pytest.raises(Unreadable, match="somebody else"):
        read_json(file)


# -- text --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, clean", [
    ("plain\n\ttext ünï 😀", "plain\n\ttext ünï 😀"), ("a\r\nb\rc", "a\nb\ufffdc"), ("\x1b[2J\x07", "\ufffd[2J\ufffd"),
    ("\ud800", "\ufffd"), ("abc\u202egpj.exe", "abc\ufffdgpj.exe"), ("\x85\u2028\x00", "\ufffd\ufffd\ufffd"), ("", ""),
])
def test_text_for_people(text, clean):
    assert clean_text(text) == clean
    clean_text(text).encode()  # which surrogates would not survive


def test_long_text_is_cut():
    assert clean_text("x" * 10, 10) == "x" * 10
    assert clean_text("x" * 11, 10) == "x" * 8 + " …"
    assert len(clean_text("x" * 10**7)) == 4096


# -- anything at all ---------------------------------------------------------------------------------


def mutate(content: bytes, draw: random.Random) -> bytes:
    content = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 5, 30))):
        if not content:
            break
        i, j = sorted(draw.randrange(len(content) + 1) for _ in range(2))
        how = draw.randrange(7)
        if how == 0:
            content[i % len(content)] = draw.randrange(256)
        elif how == 1:
            content[i % len(content)] ^= 1 << draw.randrange(8)
        elif how == 2:
            del content[i : min(j, i + draw.choice((1, 4, 1000)))]
        elif how == 3:
            content[i:i] = content[i : min(j, i + 200)] * draw.choice((1, 2, 50))
        elif how == 4:
            content[i:i] = draw.choice((b"\0", b"\xff" * 8, b"[", b'"', b"\\ud800", b"9" * 20, b"PK\1\2", b"PK\5\6", b"1e400", b"NaN", b", "))
        elif how == 5:
            content[i : i + 4] = struct.pack("<I", draw.choice((0, 1, 2**16 - 1, 2**31, 2**32 - 1)))
        else:
            content[i:j] = b""
    return bytes(content)


@pytest.mark.parametrize("read, whole", [
    (read_json, json.dumps(VALUE).encode()), (read_json, gzip.compress(json.dumps(VALUE).encode(), mtime=0)), (read_arrays, stored(ARRAYS)),
    (read_arrays, stored({"a": np.arange(3)})),
], ids=["json", "packed json", "arrays", "one array"])
def test_damaged_files_are_read_or_refused_in_little_time_and_memory(file, read, whole):
    resource = pytest.importorskip("resource")
    draw = random.Random(17)
    refused, slowest = 0, 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3000):
        file.unlink(missing_ok=True)  # much faster than writing over it
        file.write_bytes(mutate(whole, draw))
        started = time.process_time()
        try:
            read(file, 2**22)
        except Unreadable as error:
            refused += 1
            assert str(error).startswith("cannot be read: ") and len(str(error)) < 1000 and str(error).isprintable()
        slowest = max(slowest, time.process_time() - started)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert 1000 < refused < 3000, "the damage has to do damage, and not always"
    assert slowest < 2 and grown < 100 * 2**20
