"""`python -m authz` is `authz`."""

import sys

from authz.cli.main import main

sys.exit(main())
