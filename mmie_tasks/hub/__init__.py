"""Files from the Hugging Face Hub: downloads, archives, images, and the assets of a run."""
