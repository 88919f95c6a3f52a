"""Accounts, loans and budgets for small offices."""
