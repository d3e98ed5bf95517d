"""Traces in folders and object storage: a real S3 server (moto's), fsspec's memory, a file server of Python's."""

import functools
import http.server
import sys
import threading
import urllib.request

import pytest

import gapless
from gapless.commands.cli import main
from gapless.evidence.traces import storage
from gapless.evidence.traces.trace import Trace, TraceError, read_traces

from ..kineto_events import training_steps

pytest.importorskip("s3fs", reason="needs s3fs: pip install 'gapless[cloud]'")


@pytest.fixture
def trace():
    return training_steps(1)


@pytest.fixture
def s3(monkeypatch):
    """A bucket, ``s3://traces``, on a server of this machine."""
    moto = pytest.importorskip("moto.server", reason="needs moto: pip install 'moto[server]'")
    import boto3
    import s3fs

    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "mine",
                        "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    # The server keeps what earlier tests wrote.
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
    boto3.client("s3").create_bucket(Bucket="traces")
    yield "s3://traces"
    server.stop()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(params=["folder", "s3", "memory"])
def place(request, tmp_path):
    """A folder, or what stands for one."""
    if request.param == "folder":
        return str(tmp_path)
    return request.getfixturevalue("s3") + "/runs" if request.param == "s3" else f"memory://{tmp_path.name}"


# -- the same everywhere ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_what_is_written_is_read(place, trace, name):
    trace.write(f"{place}/{name}")
    again = Trace.read(f"{place}/{name}")
    assert again.events == trace.events and again.metadata == trace.metadata
    assert storage.read(f"{place}/{name}") == trace.to_bytes(compressed=name.endswith(".gz"))


def test_a_folder_is_read_in_order_and_by_pattern(place, trace):
    for name in ("rank1.json.gz", "rank0.json"):
        trace.write(f"{place}/{name}")
    storage.write(f"{place}/notes.txt", b"not a trace")
    found = read_traces(place)
    assert list(found) == ["rank0.json", "rank1.json.gz"]
    assert all(one.events == trace.events for one in found.values())
    assert list(read_traces(place, "*1.json*")) == ["rank1.json.gz"]
    assert gapless.read_traces is read_traces


def test_a_folder_with_none_is_an_error(place, trace):
    trace.write(f"{place}/trace.json")
    with pytest.raises(TraceError, match=r"holds no file \*.pt; check the folder and the pattern"):
        read_traces(place, "*.pt")


def test_what_is_missing_is_an_error_that_says_so(place, trace):
    trace.write(f"{place}/trace.json")
    with pytest.raises(TraceError, match="other.json does not exist; check the"):
        Trace.read(f"{place}/other.json")
    with pytest.raises(TraceError, match="nowhere (is no folder that exists|does not exist)"):
        read_traces(f"{place}/nowhere")


def test_one_that_is_no_trace_is_named(place, trace):
    trace.write(f"{place}/a.json")
    storage.write(f"{place}/b.json", b"{}")
    with pytest.raises(TraceError, match=r"b\.json: this JSON has no list `traceEvents`"):
        read_traces(place)


def test_the_command_reads_it_too(place, trace, capsys):
    trace.write(f"{place}/trace.json.gz")
    assert main(["trace", f"{place}/trace.json.gz"]) == 0
    assert "simulated A100" in capsys.readouterr().out
    assert main(["trace", f"{place}/other.json"]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_tensorboards_file_is_written_there_too(place, trace):
    written = trace.write_tensorboard(f"{place}/log", "worker")
    name, = read_traces(f"{place}/log")
    assert str(written).endswith(f"/log/{name}") and name.startswith("worker.") and name.endswith(".pt.trace.json.gz")


# -- folders ----------------------------------------------------------------------------------------


def test_folders_within_are_read_where_the_pattern_says_so(tmp_path, trace):
    (tmp_path / "run").mkdir()
    trace.write(tmp_path / "run" / "a.json")
    assert list(read_traces(tmp_path, "**/*.json*")) == ["run/a.json"]
    with pytest.raises(TraceError, match="holds no file"):
        read_traces(tmp_path)
    with pytest.raises(TraceError, match="is a file, not a folder"):
        read_traces(tmp_path / "run" / "a.json")


# -- S3 ---------------------------------------------------------------------------------------------


def test_a_bucket_that_is_not_there(s3, trace):
    for attempt in (lambda: Trace.read("s3://elsewhere/trace.json"), lambda: read_traces("s3://elsewhere"),
                    lambda: trace.write("s3://elsewhere/trace.json")):
        with pytest.raises(TraceError, match="s3://elsewhere.* does not exist; check the bucket"):
            attempt()


def test_without_credentials(s3, monkeypatch, trace):
    import s3fs

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(TraceError, match="no credentials .*: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        Trace.read(f"{s3}/trace.json")
    # A public bucket needs none.
    import boto3

    boto3.client("s3", aws_access_key_id="me", aws_secret_access_key="mine").put_object(
        Bucket="traces", Key="public.json", Body=trace.to_bytes(), ACL="public-read")
    assert Trace.read(f"{s3}/public.json", storage_options={"anon": True}).events == trace.events


def test_a_server_that_does_not_answer(s3, monkeypatch):
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(TraceError, match="cannot read s3://traces/trace.json: .*check the address, the network"):
        Trace.read(f"{s3}/trace.json", storage_options={"config_kwargs": {"retries": {"max_attempts": 0}}})


def test_the_profiler_exports_there(s3):
    import torch

    from gapless.measure import profiler

    with profiler.profile(device="vgpu:a10g") as prof:
        torch.ones(3, device=prof.device)
    prof.export_chrome_trace(f"{s3}/trace.json.gz")
    assert Trace.read(f"{s3}/trace.json.gz").events == prof.trace.events


# -- other storage ----------------------------------------------------------------------------------


def test_a_file_server(tmp_path, trace):
    trace.write(tmp_path / "trace.json.gz")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert Trace.read(f"{url}/trace.json.gz?query=1").events == trace.events
        with pytest.raises(TraceError, match="missing.json does not exist"):
            Trace.read(f"{url}/missing.json")
        with pytest.raises(TraceError, match="cannot write http://.*new.json: .*Unsupported method"):
            trace.write(f"{url}/new.json")
        server.shutdown()


def test_a_kind_of_storage_that_nobody_knows():
    with pytest.raises(TraceError, match="no storage is known by floppy://; known are s3, gs"):
        Trace.read("floppy://a/trace.json")


@pytest.mark.parametrize("module, url, package", [
    ("fsspec", "s3://traces/trace.json", "'gapless\\[cloud\\]'"), ("s3fs", "s3://traces/trace.json", "'gapless\\[cloud\\]'"),
    ("gcsfs", "gs://traces/trace.json", "gcsfs"), ("adlfs", "abfs://traces/trace.json", "adlfs"),
])
def test_a_package_that_is_missing_is_named_with_its_command(module, url, package, monkeypatch):
    import fsspec  # noqa: F401  its registry, with what other tests have used

    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, url.partition(":")[0], raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TraceError, match=f"needs a package that is not installed .*say pip install {package}"):
        Trace.read(url)
