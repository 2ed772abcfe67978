"""Write installed packages as wheels, with all they need: repack.py FOLDER NAME..."""

import re
import sys
import zipfile
from importlib import metadata
from pathlib import Path


def main() -> int:
    """Write the wheels; return 1 if a package is not installed."""
    folder, waiting, done = Path(sys.argv[1]), sys.argv[2:], set()
    missing = []
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in done:
            continue
        done.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        print(repacked(found, folder), flush=True)
        for need in found.requires or ():
            if "extra ==" not in need:
                waiting.append(re.match(r"[\w.-]+", need).group())
    print("not installed:", *missing or ["nothing"])
    return 1 if set(missing) & set(sys.argv[2:]) - {"wheel"} else 0


def repacked(found: metadata.Distribution, folder: Path) -> str:
    """Write a package; return the wheel's name."""
    tags = re.findall(r"^Tag: (.+)$", found.read_text("WHEEL") or "", re.M)
    name = re.sub(r"[-_.]+", "_", found.metadata["Name"]).lower()
    python, abi, _ = (tags or ["py3-none-any"])[0].split("-")
    platforms = ".".join(dict.fromkeys(tag.split("-")[2] for tag in tags)) or "any"
    path = folder / f"{name}-{found.version}-{python}-{abi}-{platforms}.whl"
    with zipfile.ZipFile(path, "w") as wheel:  # stored, since time is short
        for file in found.files or ():
            inside = str(file)
            if inside.startswith("..") or inside.endswith(
                (".pyc", "INSTALLER", "REQUESTED")
            ):
                continue
            if Path(file.locate()).is_file():
                wheel.write(file.locate(), inside)
    return f"{path.name}: {path.stat().st_size >> 20} MiB"


sys.exit(main())
