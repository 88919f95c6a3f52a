"""Readings of weather stations and a simple forecast."""
