"""The Python API: what the commands do, as functions and objects for scripts and notebooks."""

from rlplan.api.python_calls import python_call
from rlplan.wording.answers import Answer

Answer.python_call = staticmethod(python_call)  # printed in Python, an answer names calls as next steps
