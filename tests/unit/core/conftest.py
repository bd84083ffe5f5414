"""How hypothesis runs: without a deadline, since a busy machine is no defect."""

from hypothesis import settings

settings.register_profile("fencepost", deadline=None)
settings.load_profile("fencepost")
