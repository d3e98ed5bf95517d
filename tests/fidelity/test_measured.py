"""Tables of measured times are read, and a damaged one says in which row."""

import gzip

import pytest

from gapless.fidelity import measured
from gapless.fidelity.measured import MeasuredError, Network, Operator, Step, read

OPERATORS = "device,op,part,dims,latency_ms,kernels\n"
STEPS = "device,model,mode,sequence,batch,step_ms\n"
NETWORKS = "card,mode,format,compiled,torch,model,batch,image,step_ms,samples_per_s\n"


@pytest.fixture
def table(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        return path

    return write


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_the_columns_tell_what_a_table_holds(table, name):
    assert read(table(OPERATORS + "Tesla T4,bmm,test,b=2 m=3 n=4 k=5,0.5,a_kernel\n", name)) == [
        Operator("t4", "Tesla T4", "bmm", (2, 3, 4, 5), 0.5, "test", "a_kernel")]
    assert read(table(STEPS + "NVIDIA A100 80GB PCIe,opt_13,train,2048,2,12.5\n", name)) == [
        Step("a100_80gb_pcie", "opt_13", "train", 2048, 2, 12.5)]
    assert read(table(NETWORKS + "rtx3090,infer,channels_last,,1.12,resnet50,256,224,100,2560\n", name)) == [
        Network("rtx3090", "resnet50", "infer", "channels_last", 256, 224, 100.0)]


def test_sizes_may_come_in_any_order(table):
    assert read(table("op,device,dims,latency_ms\nadd,t4,h=7 b=2,1\n"))[0].sizes == (2, 7)


@pytest.mark.parametrize("text, message", [
    ("", r"the columns \(none\) are of no known table"),
    ("a,b\n1,2\n", "the columns a, b are of no known table; needed are device, op, dims, latency_ms; or "),
    (OPERATORS.replace("part", "colour"), "unknown or repeated column 'colour'; known are device, op"),
    (OPERATORS.replace("part", "op"), "unknown or repeated column"),
    (OPERATORS, "has no rows"),
    (OPERATORS + "Tesla T4,add,,b=1 h=2,1,\nTesla T4,add,,b=1 h=2,-1,\n", "row 2: latency_ms is -1: a time is more than 0"),
    (OPERATORS + "Tesla T4,add,,b=1 h=2,soon,\n", "row 1: latency_ms is 'soon', not a number"),
    (OPERATORS + "Tesla T4,add,,b=1 h=2,nan,\n", "row 1: latency_ms is nan"),
    (OPERATORS + "Tesla K80,add,,b=1 h=2,1,\n", "row 1: no card models 'Tesla K80'; known are t4, "),
    (OPERATORS + "Tesla T4,fft,,b=1 h=2,1,\n", "row 1: the operator 'fft' is not known; known are bmm, "),
    (OPERATORS + "Tesla T4,add,,b=1 w=2,1,\n", "row 1: dims of add are 'b=1 w=2', not b=… h=…"),
    (OPERATORS + "Tesla T4,add,,b=1 h=2 and more,1,\n", "row 1: dims of add are"),
    (OPERATORS + "Tesla T4,add,,b=0 h=2,1,\n", "row 1: dims are 'b=0 h=2': sizes are 1 or more"),
    (OPERATORS + "Tesla T4,add,,b=1 h=2\n", "row 1: 4 values for 6 columns"),
    (STEPS + "Tesla T4,opt_13,fly,2048,2,1\n", "row 1: mode is 'fly', not 'inf' or 'train'"),
    (STEPS + "Tesla T4,opt_13,inf,2048,1.5,1\n", "row 1: batch is '1.5', not a whole number of 1 or more"),
])
def test_a_table_that_cannot_be_used_says_why_and_where(table, text, message):
    with pytest.raises(MeasuredError, match=message) as raised:
        read(table(text))
    assert "table.csv" in str(raised.value)


def test_no_file_or_no_text(tmp_path):
    with pytest.raises(MeasuredError, match="No such file"):
        read(tmp_path / "nothing.csv")
    damaged = tmp_path / "damaged.csv.gz"
    damaged.write_bytes(gzip.compress(b"device,op\n" * 100)[:-20])
    with pytest.raises(MeasuredError, match="is no table of text"):
        read(damaged)


def test_the_shipped_tables_are_read_with_their_licences_beside_them():
    tables = {path.name: read(path) for path in measured.shipped()}
    assert {name: len(rows) for name, rows in tables.items()} == {
        "operators.csv.gz": 161_327, "vidur_linear.csv.gz": 38_495, "vidur_allreduce.csv.gz": 8_177, "steps.csv": 25,
        "timm.csv": 4_617}
    assert {row.op for row in tables["operators.csv.gz"]} <= set(measured.OPERATORS)
    for name in ("LICENSE-neusight", "LICENSE-timm", "LICENSE-vidur"):
        assert "Copyright" in (measured.FOLDER / name).read_text()
