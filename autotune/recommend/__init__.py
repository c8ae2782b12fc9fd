"""Recommendation: choose one setting and a few per-size rules from the history of a campaign.

Place in the flow of ``autotune/__init__.py``: step 10, recommend.
"""
