"""Getting files: Hub downloads, archives, images, and the `Asset` a run needs."""
