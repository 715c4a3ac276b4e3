"""The reasons why a call was denied: one block for each failure class.

Begin with `judge`, which asks them; `failure_class` says what one is, `catalogue` has their order.
"""
