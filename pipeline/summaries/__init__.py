"""Summaries of the history: what a report on a long range needs of each queue and shard, an hour or a day a row.

    rows of an hour ──summarize──▶ hour ──merge──▶ day ──merge──▶ any range of whole hours

A summary keeps what can be merged: sums, greatest values, the first and the last row. Those are exact. Percentiles of
rows cannot be merged, so it keeps distributions instead: how many rows had which value, rounded to a few percent
(`pipeline.summaries.distributions`).
"""
