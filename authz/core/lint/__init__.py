"""What a bundle can be told before it bites (`authz check`, `authz tools lint`).

Each kind of finding is one function in a table of its module, and a row says its code, its severity and what
it is about. Nothing here decides what loads: that is `authz.bundle.load`, whose faults `authz check` tells
first. Lint only reads; where Cedar can decide whether a rule can match, Cedar is asked (`policy.probes`).

    rules_match.py  rules that can never match, or always do   rules_cover.py  rules that others make idle
    rules_names.py  names and values that nothing ever has     asks.py         what asks, what does not
    tool_schema.py  schemas that let through too much          tool_review.py  what a review left open
    catalogue.py    what the catalogue costs a model           allow.py        findings that are accepted
    tested.py       rules and their tests                      tool_options.py values that become options
    approving.py    who may approve what is asked
"""
