"""The model `interleaved`: a writer, and a drawer for the pictures of its answers."""
