"""What the first cell of a notebook on Colab does.

Its text is copied there, where there is no gapless yet: so it needs the standard library only. A learner finds only
its name defined. The course is imported by name, as the package as a whole lies above this file.
"""


def install_course(course, needed, tried, python):
    """Install ``course`` and what of ``needed`` (module: requirement) is missing. PyTorch stays as it is."""
    import importlib
    import importlib.metadata
    import importlib.util
    import subprocess
    import sys
    from pathlib import Path

    def missing(name):
        importlib.invalidate_caches()
        found = importlib.util.find_spec(name)
        return found is None or found.origin is None  # the second: only a folder of this name

    def pip(*what):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2", *what]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(
                f"{(done.stderr or done.stdout).strip()[-1500:]}\n\nThe course could not be installed; pip says why, above. "
                "Is this computer online? Then run this cell again. Otherwise put the course's wheel (gapless-….whl) into "
                "this folder (on Colab: the folder sign on the left, then upload), and run this cell again.")

    if sys.version_info < python:
        raise RuntimeError("The course needs Python {}.{} or newer, and this is {}. ".format(*python, sys.version.split()[0])
                           + "On Colab: menu Runtime, Change runtime type, Runtime version: Latest.")
    if missing("torch"):
        raise RuntimeError(f"PyTorch is not installed here. Install it first: {sys.executable} -m pip install torch")
    if missing("gapless"):
        print("Installing the course …")
        wheels = sorted(str(path) for path in Path().glob("gapless-*.whl"))
        pip("--no-deps", *(wheels[-1:] or [course]))
    wanted = [requirement for name, requirement in needed.items() if missing(name)]
    if wanted:
        print("Installing", ", ".join(wanted), "…")
        # These stay as they are, whatever the others would rather have.
        there = [name for name in ("torch", "torchvision", "numpy") if not missing(name)]
        pip(*wanted, *(f"{name}=={importlib.metadata.version(name)}" for name in there))
    if missing("gapless"):
        raise RuntimeError("The course is installed now. Restart the session (on Colab: menu Runtime, Restart session), and "
                           "run this cell again.")

    import torch

    gapless = importlib.import_module("gapless")
    if not missing("packaging"):
        from packaging.specifiers import SpecifierSet

        if not SpecifierSet(tried).contains(torch.__version__, prereleases=True):
            print(f"Note: the course was tried with PyTorch {tried}, and this is {torch.__version__}.")
    device = gapless.device()
    simulated = ", simulated: PyTorch sees no GPU here" if device.type == "vgpu" else ""
    print(f"Ready: gapless {gapless.__version__}, PyTorch {torch.__version__}, {gapless.device_name(device)}{simulated}.")
