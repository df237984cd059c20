"""Python imports this at its start: an unpacked Python starts its child processes by the script that it needs."""

import os
import sys

sys.executable = os.environ.get("SITE_PYTHON", sys.executable)
