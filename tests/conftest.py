"""What holds for all tests: an example may take as long as it takes, since a shared machine pauses when it likes."""

from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
