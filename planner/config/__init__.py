"""Configuration: what can be set, how the layers are merged, and what comes of them."""

from planner.config.layers import Resolved, embedded_tasks, file_layer, flag_layer, resolve, task_layers
from planner.config.request import build_request, build_step, resolved_values
from planner.config.schema import Config, template
from planner.tables import Layer

__all__ = [
    "Config",
    "Layer",
    "Resolved",
    "build_request",
    "build_step",
    "embedded_tasks",
    "file_layer",
    "flag_layer",
    "resolve",
    "resolved_values",
    "task_layers",
    "template",
]
