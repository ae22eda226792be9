# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""QEMU's machine protocol, as far as a host needs it."""

import json
import threading

from .errors import Failed


class Monitor:
    """The control socket of one QEMU."""

    SECONDS = 30

    def __init__(self, socket):
        socket.settimeout(self.SECONDS)
        self.file = socket.makefile("rwb")
        self.lock = threading.Lock()
        self.negotiated = False

    def ask(self, command, **arguments):
        """Run a command and return its answer; raise Failed if QEMU refuses or is gone."""
        with self.lock:
            if not self.negotiated:
                self._ask({"execute": "qmp_capabilities"})
                self.negotiated = True
            return self._ask({"execute": command, "arguments": arguments})

    def _ask(self, request):
        try:
            self.file.write(json.dumps(request).encode() + b"\n")
            self.file.flush()
            while True:
                line = self.file.readline()
                if not line:
                    raise Failed("QEMU's monitor is gone")
                word = json.loads(line)         # greetings and events are skipped
                if "return" in word:
                    return word["return"]
                if "error" in word:
                    raise Failed(f"QEMU: {word['error']['desc']}")
        except OSError as problem:
            raise Failed(f"QEMU's monitor does not answer: {problem}") from None
