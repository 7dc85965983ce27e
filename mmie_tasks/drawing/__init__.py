"""A text-to-image model draws the images that saved texts ask for."""
