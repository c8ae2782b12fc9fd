"""Recommendation: one setting and a few per-size rules from the history of a campaign.

This is step 10 of the flow in ``autotune/__init__.py``.
"""
