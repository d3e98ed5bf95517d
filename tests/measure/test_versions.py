"""What a record's figures depend on."""

import json
import platform

import torch

from gapless.measure.versions import versions


def test_versions_are_those_of_this_process():
    found = versions()
    assert json.loads(json.dumps(found)) == found
    assert (found["python"], found["torch"]) == (platform.python_version(), torch.__version__)
    assert ("cuda" in found) == (torch.version.cuda is not None)
