"""Tests of `pipeline/`, on a real local Spark."""
