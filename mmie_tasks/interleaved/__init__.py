"""The model `interleaved`: a writer, and a drawer of the pictures of its answers."""
