"""What a tested model said with text and images: in any shape, as ordered segments."""
