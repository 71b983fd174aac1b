"""Policy cases: what they say, how they are decided, and what they prove of the rules (spec section 6).

A case is decided by the same `decide` as a request of the service, with facts that the case states. There
is no second evaluator here.
"""
