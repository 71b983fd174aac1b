"""The pages for people, under `/ui`. Empty until approvals give them something to show."""
