"""The bill: every executor-second has exactly one cause, and the causes sum to the whole.

``ledger`` keeps the accounts, ``executor_life`` the times of one executor, ``causes`` the closed list.
"""
