"""The Cedar engine (spec section 6). The only importer of cedarpy.

Permits and hard forbids are one policy set; the forbids tagged `@requires("approval")` plus a
blanket permit are a second one, evaluated only when the first allows. Cedar reports every
determining forbid, so each asking rule is named.
"""

from authz.core.policy.engine import PolicyAnswer, PolicyEngine, Question
from authz.core.policy.rules import Policy, parse_rule_file

__all__ = ["Policy", "PolicyAnswer", "PolicyEngine", "Question", "parse_rule_file"]
