"""Programs that a test asks where they are installed. What is left out without them shows as skipped (77)."""
import shutil
import sys

SKIPPED = 77
_left_out = []


def has_tool(name, what):
    """Whether there is such a program; if not, notes that `what` was not checked."""
    if shutil.which(name) is not None:
        return True
    _left_out.append(f"{what} (needs {name})")
    return False


def finish():
    """At the end of a test that has passed."""
    if _left_out:
        print("all else passed; not checked: " + ", ".join(_left_out))
        sys.exit(SKIPPED)
    print("all passed")
