"""`separatrix serve`: the explorer on this machine."""

from __future__ import annotations

import importlib.util
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import note, printable_line, write_json
from separatrix.errors import InvalidInput

__all__ = ["serve"]


def serve(
    *,
    host: Annotated[
        str, Parameter(help="Address to listen on; 127.0.0.1 is this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[Whole, Parameter(help="Port to listen on; 0 takes any that is free.")] = 8765,
    folder: Annotated[
        Path, Parameter(help="Folder whose witnesses and stores are shown; nothing outside it is read.")
    ] = Path(),
    allow_host: Annotated[
        tuple[str, ...],
        Parameter(
            help="Name under which the explorer may be asked besides its own; needed with a --host that "
            "other machines can reach.",
            negative_iterable=(),
            show_default=False,
        ),
    ] = (),
    open_page: Annotated[
        bool, Parameter(name="--open", negative="", help="Open the page in a browser.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Serve the explorer: type an input and watch a model at work. Ctrl-C ends it."""
    for module in ("starlette", "uvicorn"):
        if importlib.util.find_spec(module) is None:
            raise InvalidInput(
                f"The explorer needs {module}, which is not installed; pip install 'separatrix[serve]'."
            )
    from separatrix.explorer.serving import serve as run

    def started(address: str) -> None:
        if json:
            write_json({"address": address, "folder": str(folder.resolve())})
            sys.stdout.flush()
        else:
            print(printable_line(address), flush=True)
            note("Ctrl-C ends it.")
        if open_page:
            webbrowser.open(address)

    run(folder, host=host, port=port, allowed=allow_host, started=started)
