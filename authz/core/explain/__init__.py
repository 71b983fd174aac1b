"""Why a call is decided as it is: every stage with its input and output, and the rules that nearly matched.

`explain` runs `authz.core.decide.decide` itself and reads what its stages came to; nothing here decides.
"""

from authz.core.explain.explain import Begun, begin, explain, finish
from authz.core.explain.model import Explanation

__all__ = ["Begun", "Explanation", "begin", "explain", "finish"]
