"""Runs the migrations on the connection that planner.store.upgrade hands over."""

from alembic import context

from planner.store.base import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
