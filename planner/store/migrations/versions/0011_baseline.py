"""The oldest version that is upgraded: the tables and the view as `planner.store.fresh` made them then.

Nothing leads to it. An empty database is made at the newest version, and older ones are refused.
"""

revision = "0011"
down_revision = None
branch_labels = None
depends_on = None
