from hypothesis import settings

# No time limit for an example: on a busy machine any of them may take long.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
