"""The lab's Jupyter server: this machine only, a token always, quiet.

Read instead of the user's own settings.
"""

import os
import signal
from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821 (Jupyter puts it here)

c.ServerApp.ip = "127.0.0.1"
c.ServerApp.allow_remote_access = False
c.ServerApp.allow_root = True  # in a sandbox the user is root of nothing but the sandbox
c.ServerApp.root_dir = str(Path(__file__).parents[2])
c.ServerApp.log_level = "WARN"
# Tells the address and, in a sandbox, answers at the machine's loopback.
c.ServerApp.jpserver_extensions = {"labkit.sandbox.jupyter": True}

# Ctrl-C ends the lab without a question, its kernels with it. Away from a terminal the server
# would take it as a crash and leave its kernels to themselves: there it's to mean SIGTERM.
c.JupyterApp.answer_yes = True
signal.signal(signal.SIGINT, lambda *_: os.kill(os.getpid(), signal.SIGTERM))

# Looks for language servers of other programs at every start, and the lab uses none.
c.LanguageServerManager.autodetect = False

# No login shell: it would forget the lab's PATH.
c.ServerApp.terminado_settings = {"shell_command": [os.environ.get("SHELL") or "/bin/sh"]}
