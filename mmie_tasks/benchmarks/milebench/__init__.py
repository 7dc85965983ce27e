"""MileBench: 29 multi-image long-context datasets, scored by rule."""
