"""MMIE: interleaved text and images, in and out."""
