"""Loading the policy bundle: whole, or not at all."""
