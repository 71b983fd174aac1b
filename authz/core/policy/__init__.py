"""The Cedar engine (spec section 6). The only importer of cedarpy.

Cedar is handed a slice of the policies: `index` finds those whose scopes could hold, `slices` cuts them into
sets, and `findings` reads one answer from what Cedar says of each. Permits and hard forbids settle an answer;
what they allow, rules tagged `@requires("approval")` can ask for.
"""

from authz.core.policy.checks import policy_problems
from authz.core.policy.engine import CacheStats, PolicyEngine, PreparedActions, Question
from authz.core.policy.findings import PolicyAnswer
from authz.core.policy.rules import Policy, parse_rule_file, read_rule_file
from authz.core.policy.validation import ValidationCache, validation_digests

__all__ = [
    "CacheStats",
    "Policy",
    "PolicyAnswer",
    "PolicyEngine",
    "PreparedActions",
    "Question",
    "ValidationCache",
    "parse_rule_file",
    "policy_problems",
    "read_rule_file",
    "validation_digests",
]
