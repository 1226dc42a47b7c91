"""What is laid into a trial's folder for a trainer on our problems: our reward, the problems, our programs."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
