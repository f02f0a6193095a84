"""Tests of the modules as tools."""
