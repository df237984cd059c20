"""Chromium: where it is, and how it is started; fetched as the servers are, into `.servers/`, if it is not installed.

Standard library only: `make servers` runs before anything is installed.
"""

import ctypes
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.servers.packages import UNPACKED, fetch
from tests.support.servers.server import Missing

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  {folders}
  <cachedir>{cache}</cachedir>
  {families}
</fontconfig>
"""
_PREFERRED = {
    "system-ui": ("Inter", "Noto Sans", "Liberation Sans", "DejaVu Sans"),
    "sans-serif": ("Inter", "Noto Sans", "Liberation Sans", "DejaVu Sans"),
    "monospace": ("Liberation Mono", "DejaVu Sans Mono"),
}
_LIBRARIES = ("lib/*-linux-gnu*", *(f"usr/lib/*-linux-gnu*{own}" for own in ("", "/nss", "/pulseaudio")))
_ARGUMENTS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",  # the same widths of letters on every machine
    "--hide-scrollbars",
)


@dataclass(frozen=True)
class Chromium:
    """The packages; `variable` may hold the path of another Chromium, or of Chrome."""

    name: str = "chromium"
    variable: str = "TEST_CHROMIUM"
    # Pictures need fonts with even letters; without any font Chromium does not start. Playwright's own program, which
    # drives it, needs libatomic, which a bare Debian lacks.
    packages: tuple[str, ...] = ("chromium", "fonts-inter", "fonts-liberation", "libatomic1")


CHROMIUM = Chromium()


def find_chromium(unpacked: Path = UNPACKED) -> Path | None:
    """The program: named by the variable, installed, or unpacked; None if there is none.

    Debian's /usr/bin/chromium is a script that adds options of the machine's owner, so it is not used if possible.
    """
    if given := os.environ.get(CHROMIUM.variable):
        return Path(given)
    places = (Path("/usr/lib/chromium/chromium"), shutil.which("chromium"), unpacked / "usr/lib/chromium/chromium")
    return next((Path(place) for place in places if place and Path(place).exists()), None)


def is_complete() -> bool:
    """Whether nothing must be fetched to use Chromium."""
    return find_chromium() is not None and (_has_atomic() or bool(driver_libraries()))


def _has_atomic() -> bool:
    try:
        ctypes.CDLL("libatomic.so.1")
    except OSError:
        return False
    return True


def driver_libraries() -> list[Path]:
    """Where the unpacked library of Playwright's own program is."""
    return [path.parent for path in UNPACKED.glob("usr/lib/*-linux-gnu*/libatomic.so.1")]


def installed_chromium() -> Path:
    """The program, fetched if need be; raises Missing."""
    if not is_complete():
        try:
            fetch(CHROMIUM)
        except OSError as error:
            raise Missing(f"no Chromium: {error}") from error
    found = find_chromium()
    if found is None:
        raise Missing(f"Debian's {CHROMIUM.packages[0]} holds no chromium")
    return found


def arguments(program: Path) -> list[str]:
    """The arguments; the sandbox needs rights that root gives up, and that an unpacked program does not have."""
    is_unsafe = os.geteuid() == 0 or UNPACKED in program.parents
    return [*_ARGUMENTS, *(["--no-sandbox"] if is_unsafe else [])]


def environment(program: Path, folder: Path) -> dict[str, str]:
    """The variables of the process, with fonts that do not depend on the machine; `folder` is for files."""
    fonts = folder / "fonts.conf"
    fonts.write_text(_font_settings([Path("/usr/share/fonts"), UNPACKED / "usr/share/fonts"], folder / "fonts"))
    given = {**os.environ, "FONTCONFIG_FILE": str(fonts), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    if UNPACKED in program.parents:
        libraries = [path for pattern in _LIBRARIES for path in UNPACKED.glob(pattern)]
        given["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))
    return given


def _font_settings(folders: list[Path], cache: Path) -> str:
    families = (
        f"<alias><family>{family}</family>"
        f"<prefer>{''.join(f'<family>{name}</family>' for name in names)}</prefer></alias>"
        for family, names in _PREFERRED.items()
    )
    return _FONTS.format(
        folders="".join(f"<dir>{escape(str(folder))}</dir>" for folder in folders),
        cache=escape(str(cache)),
        families="\n  ".join(families),
    )
