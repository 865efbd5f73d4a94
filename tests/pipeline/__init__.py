"""Tests of `pipeline/`, on a real Spark of this machine."""
