"""What pyproject.toml cannot say: the wheel carries the lessons' notebooks, of which there is one copy, in ``notebooks/``.

They lie in the package as ``gapless/notebooks/``, where ``gapless.installed`` finds them. An editable install has no copy:
it reads the folder in the repository.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithNotebooks(build_py):
    """``build_py``, and the notebooks beside the modules."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        source, target = Path("notebooks"), Path(self.build_lib, "gapless", "notebooks")
        lessons = sorted(path for path in source.glob("[0-9][0-9]_*/*.ipynb") if path.stem == path.parent.name)
        if not lessons:
            raise FileNotFoundError(f"{source.resolve()} holds no lessons: build in the repository, or from an sdist")
        kept = {target / path.relative_to(source) for path in [source / "index.ipynb", *lessons]}
        for old in set(target.rglob("*.ipynb")) - kept:  # of an earlier build in this folder
            old.unlink()
        for path in sorted(kept):
            self.mkpath(str(path.parent))
            self.copy_file(str(source / path.relative_to(target)), str(path), preserve_mode=False)


setup(cmdclass={"build_py": BuildWithNotebooks})
