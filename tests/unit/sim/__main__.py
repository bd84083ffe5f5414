"""`python -m tests.unit.sim`, as `make sim` calls it.

Sets of strings are in another order in each process unless their hash is fixed, so this starts itself again with a
fixed one: then a seed replays exactly.
"""

import os
import sys

from tests.unit.sim.command import main

HASH_SEED = "0"

if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        environment = os.environ | {"PYTHONHASHSEED": HASH_SEED}
        os.execve(sys.executable, [sys.executable, "-m", "tests.unit.sim", *sys.argv[1:]], environment)
    sys.exit(main(sys.argv[1:]))
