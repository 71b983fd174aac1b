"""The pages over the real service, spoken to as a browser would."""
