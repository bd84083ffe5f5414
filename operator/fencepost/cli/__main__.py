"""`python -m fencepost.cli`, the same as `fencepost`."""

import sys

from fencepost.cli.app import main

sys.exit(main())
