"""X-rays under way beside the caller, who waits for what they find or calls them off."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable

from efflab.gpu._xray_run import Crew


class Pending:
    """not_run: why the compiler is not asked at all, for the report; None when it is."""

    def __init__(self, look: Callable[[Crew], list[str]] | None, *, not_run: str | None = None) -> None:
        """look: finds the problems, in a thread of its own; None when there is nothing to look at."""
        self.not_run = not_run
        self._crew = Crew()
        self._found: list[str] = []
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if look is not None:
            self._thread = threading.Thread(target=self._run, args=(look,), name="efflab x-ray", daemon=True)
            atexit.register(self.cancel)
            self._thread.start()

    def _run(self, look: Callable[[Crew], list[str]]) -> None:
        try:
            self._found = look(self._crew)
        except BaseException as error:      # it belongs to the thread that asks for the problems
            self._error = error

    def problems(self) -> list[str]:
        """Wait, then the problems in plain words. Raises what the x-ray raised, InterruptedError after cancel()."""
        if self._thread is not None:
            self._thread.join()
            atexit.unregister(self.cancel)
        if self._error is not None:
            raise self._error
        return self._found

    def cancel(self) -> None:
        """Kill what still compiles; without effect once it is over."""
        self._crew.dismiss()
        if self._thread is not None:
            self._thread.join()
            atexit.unregister(self.cancel)
